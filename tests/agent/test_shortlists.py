"""Shortlists online: rewards of single picks, files, logs, and what evaluations make of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairbandit import Agent, FairbanditError, registry
from fairbandit.agent.replaying import replay
from fairbandit.conformance import Scattered
from fairbandit.evaluation.direct import RewardFit, direct_values
from fairbandit.logs import read_log
from fairbandit.policy.build import build_policy
from tests import support
from tests.agent import worlds

PARTS: dict[str, Any] = {"split": "full", "estimator": "ridge", "rank": "identity"}
SELECTORS = ["argmax", "epsilon_greedy", "proportional", "group_parity", "minimum_pull"]

Given = dict[tuple[int, int], float]


def serve(agent: Agent, rounds: int) -> tuple[list[Any], Given]:
    """Decides pools of 1 to 6, of which 1 to 4 are picked; rewards come one by one, and late."""
    draws = np.random.default_rng(agent.rounds)
    decisions, given = [], {}
    for _ in range(rounds):
        k = int(draws.integers(1, 7))
        pool, labels = draws.normal(size=(k, 3)), draws.choice(["a", "b", "c"], k).tolist()
        decisions.append(agent.act(pool, labels, picks=int(draws.integers(1, 5))))
        waiting = [
            (t, place) for t, one in agent._ledger.state.waiting.items() for place in one.open
        ]
        for t, place in waiting:
            if draws.random() < 0.4:
                given[t, place] = float(draws.normal())
                agent.update(given[t, place], t, candidate=place)
    return decisions, given


@pytest.mark.parametrize("selector", SELECTORS)
def test_copied_replayed_and_read(selector: str, tmp_path: Path) -> None:
    """A copy goes on like the agent, and the log has all decisions."""
    settings = {**PARTS, "selector": selector}
    log = tmp_path / "log.jsonl"
    agent = Agent.from_config(settings, features=3, groups=["a"], log=log)
    decisions, given = serve(agent, 40)
    assert {len(one.picks) for one in decisions} == {1, 2, 3, 4}
    agent.save(tmp_path / "agent")
    twin = Agent.load(tmp_path / "agent")
    later, more = serve(agent, 20)
    assert serve(twin, 20) == (later, more)
    found = replay(log)
    assert (found.decisions, found.rewards) == (60, len(given) + len(more))

    read = read_log(log)
    assert read.probabilities is not None
    for row, (t, one) in enumerate(zip(read.names, [*decisions, *later], strict=True)):
        m = len(one.picks)
        assert read.picks[row].tolist() == [*one.picks, *[-1] * (4 - m)]
        assert tuple(read.propensities[row, :m]) == one.propensities
        rewards = [{**given, **more}.get((t, place), np.nan) for place in one.picks]
        np.testing.assert_array_equal(read.rewards[row, :m], rewards)
        assert read.sums(read.probabilities)[row] == pytest.approx(m)


def test_a_direct_estimate_is_the_mean_over_decisions_of_means_over_picks(tmp_path: Path) -> None:
    settings = {**PARTS, "selector": "argmax"}
    agent = Agent.from_config(settings, features=3, log=tmp_path / "log")
    serve(agent, 60)
    log = read_log(tmp_path / "log")
    assert log.contexts is not None
    groups, of_rows = log.padded(log.groups, -1), RewardFit(log).scores(log.contexts)
    scores, present = log.padded(of_rows, 0.0), groups >= 0
    ranks, m = np.zeros(scores.shape), (log.picks >= 0).sum(1)
    for group in range(3):
        own, here = np.sort(of_rows[log.groups == group]), groups == group
        ranks[here] = np.searchsorted(own, scores[here], side="right") / len(own)
    pi = present * (m / present.sum(1))[:, None]
    best = [np.sort(ranks[i, present[i]])[::-1][: m[i]].mean() for i in range(len(log))]
    means = (float(((pi * part).sum(1) / m).mean()) for part in (scores, ranks))
    found = direct_values(log, [pi[present]], 0, repetitions=0)
    assert found[0].sum(2)[1:, 0].tolist() == pytest.approx([*means, np.mean(best)])


def test_rewards_that_are_not_of_the_picks_are_refused() -> None:
    agent = Agent.from_config({**PARTS, "selector": "argmax"}, features=1, seed=0)
    decision = agent.act([[1.0], [2.0], [3.0]], ["a", "a", "b"], picks=2)
    other = next(place for place in range(3) if place not in decision.picks)
    held = worlds.held(agent)
    for reward, candidate in [
        *((1.0, None), ([1.0], None), ([1.0, 2.0, 3.0], None), ({}, None)),
        *(({other: 1.0}, None), (1.0, other), (1.0, [0]), ([1.0, np.nan], None), (1.0, 0.5)),
    ]:
        with pytest.raises(FairbanditError):
            agent.update(reward, decision.ticket, candidate=candidate)  # type: ignore[arg-type]
        assert worlds.held(agent) == held
    with pytest.raises(FairbanditError, match="picks: expected a whole number of at least 1"):
        agent.act([[1.0]], ["a"], picks=0)
    agent.update(np.array([1.0, 2.0]))
    assert not agent.pending


def test_what_is_picked_beside_does_not_wait_with_patience() -> None:
    """Patience counts rounds, for all picks of a round alike."""
    settings = {**PARTS, "selector": "argmax"}
    agent = Agent.from_config(settings, features=1, patience=1, seed=0)
    first = agent.act([[1.0], [2.0]], ["a", "b"], picks=2)
    agent.update(1.0, first.ticket, candidate=0)
    agent.act([[1.0]], ["a"])
    assert agent.pending == (1, 2)
    agent.act([[1.0]], ["a"])
    assert agent.pending == (2, 3)


PAIRS = [(estimator, "identity") for estimator in registry.names("estimator")]
PAIRS += [("optimistic_ridge", rank) for rank in registry.names("rank")]
PAIRS = [p for p in PAIRS if "truth" not in build_policy(support.playable("full", *p)).needs]


@pytest.mark.parametrize(("estimator", "rank"), support.some(PAIRS, 3))
def test_an_agent_decides_as_the_engine_in_whatever_order(estimator: str, rank: str) -> None:
    """Pools have empty places. A run has outcomes of empty slots, which must not count."""
    world, rounds, shuffled = Scattered(), 40, random.Random(0)
    chosen = build_policy(support.playable("full", estimator, rank))
    (found,) = support.played(chosen, world, rounds, 2, picks=3)
    agent = worlds.agent_for(world, chosen.describe(), 0)
    draws = support.draws(world, rounds, 0)
    for t in range(rounds):
        here = np.flatnonzero(draws.groups[t] >= 0)
        decision = agent.act(draws.contexts[t][here], draws.groups[t][here], picks=3)
        picks = here[list(decision.picks)].tolist()
        assert picks == [a for a in found.actions[0, t].tolist() if a >= 0]
        for place in shuffled.sample(decision.picks, len(picks)):
            agent.update(draws.rewards[t][here[place]], decision.ticket, candidate=place)
