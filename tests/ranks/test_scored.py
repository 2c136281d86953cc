"""What selectors see of past picks."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import Agent, Engine, FairbanditError, Policy
from fairbandit.conformance import Scattered
from fairbandit.selectors import Argmax, Ranked, Selector
from tests import support


class Watching(Argmax):
    """`Argmax` that keeps what it is shown of past picks."""

    needs = frozenset({"picks"})

    def __init__(self) -> None:
        self.picks: list[Tensor] = []
        self.last: dict[int, Tensor] = {}

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        counts, rounds = ranked.pick_counts, ranked.scored.rounds.tolist()
        self.picks.append(counts)
        self.last.update(zip(rounds, counts.unbind(1), strict=True))
        return super()._inclusion(ranked, picks)

    def seen(self) -> Tensor:
        """What it was shown when each round was decided for the last time, (B, T, G)."""
        return torch.stack([self.last[t] for t in sorted(self.last)], 1)


def greedy(selector: Selector) -> Policy:
    return support.replaced(support.policy("greedy"), selector=selector)


def test_picks_in_simulation() -> None:
    """Round t sees the picks of rounds 1 … t − 1, also across pieces."""
    rounds = 300
    watching = Watching()
    policy = greedy(watching)
    engine = Engine(policy, Scattered(), rounds=rounds, seed=0, replicas=range(2))
    picked = torch.cat([played.groups for played in engine.play()], 1)
    seen = watching.seen()
    for t in range(1, rounds + 1):
        past = picked[:, : t - 1]
        counts = torch.stack([(past == group).sum(1) for group in range(3)], 1)
        assert torch.equal(seen[:, t - 1], counts)


@pytest.mark.parametrize("refresh", [None, 1.5])
def test_picks_online(refresh: float | None) -> None:
    """Whether a reward is awaited, given up or known; observed rounds count; groups may be new."""
    watching = Watching()
    policy = greedy(watching)
    policy.refresh = refresh
    agent = Agent(policy, features=2, groups=["a"], patience=40)
    draws, picked = np.random.default_rng(0), list[str]()
    for t in range(300):
        labels = [["a", "b", "c"][code] for code in draws.integers(0, 1 + min(t // 20, 2), 3)]
        x = draws.normal(size=(3, 2))
        if t % 50 == 49:
            agent.observe(x[None], [labels], [2], [0.5])
            picked.append(labels[2])
            continue
        before = [picked.count(str(group)) for group in agent.groups]
        decision = agent.act(x, labels)
        counts = watching.picks.pop()[0, 0].tolist()
        assert counts == before + [0] * (len(agent.groups) - len(before))
        assert not watching.picks
        picked.append(labels[decision.candidate])
        if t % 3 == 1:
            agent.update(1.0, decision.ticket)
        elif t % 3 == 2:
            agent.drop(decision.ticket)
    assert agent.groups == ("a", "b", "c")
    assert len(agent.pending) > 5


def test_picks_that_no_part_declares_to_read() -> None:
    class Silent(Argmax):
        """Reads picks and does not say so."""

        def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
            return super()._inclusion(ranked, picks) + 0 * ranked.pick_counts[..., :1]

    with pytest.raises(FairbanditError, match="reads past picks: declare needs"):
        support.actions(greedy(Silent()), Scattered(), 5)
