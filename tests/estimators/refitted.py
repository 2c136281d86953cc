"""Plays of a policy whose estimator is fitted anew to all outcomes."""

from __future__ import annotations

from pathlib import Path

import torch

from fairbandit import Agent, Policy
from tests import support


def check_plays(chosen: Policy, folder: Path) -> None:
    """Checks that blocks, single rounds, single replicas and an agent that is loaded decide alike.

    Pools have empty slots, and rewards of a round come in reverse order. A loaded agent fits its
    model again.
    """
    world = support.census("census_ethnicity")
    found = support.actions(chosen, world, 30, 2, picks=2)
    assert torch.equal(found, support.actions(chosen, world, 30, 2, picks=2, at_once=1))
    assert torch.equal(found[1:], support.actions(chosen, world, 30, [1], picks=2))
    draws = support.draws(world, 30, 0)
    agent = Agent(chosen, features=world.features, groups=len(world.group_names))
    for t, places in enumerate(found[0].view(30, 2).tolist(), 1):
        decided = agent.act(draws.contexts[t - 1], draws.groups[t - 1], picks=2)
        assert list(decided.picks) == [place for place in places if place >= 0]
        for place in reversed(decided.picks):
            agent.update(float(draws.rewards[t - 1, place]), decided.ticket, candidate=place)
        if t == 20:
            agent.save(folder / "agent")
            agent = Agent.load(folder / "agent")
