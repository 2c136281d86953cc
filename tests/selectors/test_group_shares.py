"""Every group gets its share of the picks; what is owed to absent groups is repaid."""

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Agent, FairbanditError
from fairbandit.policy.build import build_policy
from fairbandit.selectors import MinimumPull
from fairbandit.selectors.group_shares import group_shares
from tests import support


@pytest.mark.parametrize(("groups", "tolerance"), [(2, 0.0), (3, 0.7), (5, 2.0)])
def test_no_group_ever_lacks_more_than_the_tolerance_and_one_pick(
    groups: int, tolerance: float
) -> None:
    """Whatever else is picked: the adversary prefers the group that has had most of its share."""
    draws = np.random.default_rng(groups)
    for shares in ([1 / groups] * groups, (draws.random(groups) / groups).tolist()):
        past: list[int] = []
        for t in range(1, 60):
            lack = np.array(shares) * (t - 1) - np.bincount(past, minlength=groups)
            index = (-lack + draws.normal(size=groups)).tolist()
            selector = MinimumPull(shares=shares, tolerance=tolerance)
            shown = torch.tensor([[index]], dtype=torch.float64)
            counts = torch.from_numpy(np.bincount(past, minlength=groups))[None, None]
            asked = support.ranked(shown, torch.arange(groups), pick_counts=counts)
            past.append(int(selector.select(asked).actions))
            lack = np.array(shares) * t - np.bincount(past, minlength=groups)
            assert lack.max() <= tolerance + 1 + 1e-12


def test_online_a_new_group_is_owed_its_share_of_all_rounds() -> None:
    agent = Agent.from_config("minimum_pull", features=1, seed=0)
    for _ in range(50):
        agent.update(1.0, agent.act([[1.0], [0.9]], ["a", "b"]).ticket)
    picks = [agent.act([[1.0], [0.9], [-9.0]], ["a", "b", "new"]).candidate for _ in range(6)]
    assert picks == [2] * 5 + picks[5:]


def test_online_a_list_refuses_new_groups_and_nothing_changes(tmp_path) -> None:
    selector = {"name": "minimum_pull", "shares": [0.4, 0.2]}
    settings = {"name": "minimum_pull", "selector": selector}
    agent = Agent.from_config(settings, features=1, groups=["a", "b"])
    agent.act([[1.0], [2.0]], ["a", "b"])
    with pytest.raises(FairbanditError, match="expected one for each of 3 groups, or one number"):
        agent.act([[1.0], [2.0]], ["a", "c"])
    assert (agent.rounds, agent.groups) == (1, ("a", "b"))
    agent.save(tmp_path / "agent")
    assert agent.act([[1.0], [2.0]], ["a", "b"]) == Agent.load(tmp_path / "agent").act(
        [[1.0], [2.0]], ["a", "b"]
    )


@pytest.mark.parametrize("shares", [0.26, [0.1, 0.1]])
def test_what_is_refused_at_the_first_decision(shares: Any) -> None:
    selector = {"name": "minimum_pull", "shares": shares}
    policy = build_policy({"name": "minimum_pull", "selector": selector})
    with pytest.raises(FairbanditError, match="4 groups"):
        support.played(policy, support.environment(), rounds=1)


def test_one_number_or_a_list() -> None:
    assert group_shares(0.25, 4) == [0.25] * 4
    assert group_shares([0, 0.4, 0.6], 3) == [0.0, 0.4, 0.6]
    assert (group_shares(0.3), group_shares(None)) == ([0.3], [])
    assert (group_shares(None, 5), group_shares(None, 20)) == ([0.1] * 5, [0.025] * 20)
    assert group_shares(0.3, 0) == group_shares([], 0) == []
