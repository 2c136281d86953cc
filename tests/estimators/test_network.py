"""Neural-linear models: beside a plain loop that trains them itself, and in every play."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fairbandit import Agent, FairbanditError, build
from fairbandit.agent import replay
from fairbandit.estimators import Network
from fairbandit.history import Outcomes, Problem
from fairbandit.registry import create
from fairbandit.streams import Purpose, Streams
from tests import support
from tests.estimators.refitted import check_plays
from tests.literal import pick, refreshed

REFRESH = 1.6
OPTIMISTIC = {"name": "optimistic_ridge", "exploration": 2.0}
SMALL: dict[str, Any] = {"widths": [8, 4], "steps": 6, "batch": 16}


def policy(rank: str = "identity", split: str = "full", **more: Any) -> Any:
    estimator = {"name": "neural_linear", **SMALL, **more}
    return build({"split": split, "estimator": estimator, "rank": rank, "refresh": REFRESH})


def trained(x: Tensor, r: Tensor, draw: float, d: int) -> Any:
    """The learned features as a function, by a loop of its own: plain AdamW, step by step."""
    seed = int(draw * 2**32)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        first, second = nn.Linear(d, 8).double(), nn.Linear(8, 4).double()
        out = nn.Linear(4, 1).double()
    centre, spread = x.mean(0), x.std(0, correction=0)
    spread[spread == 0] = 1
    z, y = (x - centre) / spread, (r - r.mean()) / (r.std(correction=0) or 1.0)
    order = np.lexsort((*x.numpy().T, r.numpy(), np.arange(len(r))))
    z, y = z[order], y[order]
    weights = [*first.parameters(), *second.parameters(), *out.parameters()]
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
    batches = np.random.default_rng(seed).integers(len(r), size=(6, 16))

    def features(z: Tensor) -> Tensor:
        learned: Tensor = second(first(z).relu()).relu()
        return learned

    for step, batch in enumerate(batches):
        loss = (out(features(z[batch]))[:, 0] - y[batch]).square().mean()
        rate = 0.01 * (1 - step / 6)
        slopes = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for w, slope, (m, v) in zip(weights, slopes, moments, strict=True):
                w.mul_(1 - rate * 1e-4)
                m.mul_(0.9).add_(0.1 * slope)
                v.mul_(0.999).add_(0.001 * slope**2)
                mean, square = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
                w.sub_(rate * mean / (square.sqrt() + 1e-8))
    return lambda x: torch.cat([torch.ones(len(x), 1), features((x - centre) / spread)], 1).detach()


def test_it_equals_a_loop_that_trains_at_each_refresh() -> None:
    world, rounds, seed = support.environment("synthetic", link="quadratic"), 60, 3
    draws = support.draws(world, rounds, seed)
    contexts, rewards = torch.from_numpy(draws.contexts), torch.from_numpy(draws.rewards)
    random = Streams(seed, [0])[Purpose.ESTIMATOR].uniform(1, rounds, 1)[0, :, 0].tolist()
    actions, n, model = list[int](), 0, None
    for t in range(1, rounds + 1):
        if refreshed(t - 1, REFRESH) > n:
            n = refreshed(t - 1, REFRESH)
            at = torch.arange(n), torch.tensor(actions[:n])
            x, r = contexts[at], rewards[at]
            phi = trained(x, r, random[n - 1], world.features)
            gram = phi(x).T @ phi(x) + 0.1 * torch.eye(5, dtype=torch.float64)
            model = phi, torch.linalg.solve(gram, phi(x).T @ r)
        score = np.zeros(world.places)
        if model is not None:
            score = (model[0](contexts[t - 1]) @ model[1]).numpy()
        actions.append(pick(score, score + 1e-9, draws.ties[t - 1]))
    ours = support.actions(policy(), world, rounds, seed=seed)
    assert ours[0].tolist() == actions


@pytest.mark.parametrize(
    ("rank", "head"),
    [("empirical_cdf", None), ("identity", OPTIMISTIC), ("identity", "thompson_ridge")],
)
def test_blocks_rounds_replicas_and_agents_decide_alike(
    rank: str, head: Any, tmp_path: Path
) -> None:
    check_plays(policy(rank, head=head), tmp_path)


def models(estimator: Network, replicas: int = 2, n: int = 40) -> tuple[Any, Tensor, Tensor]:
    """Models of two n_train, contexts that they score, and groups."""
    draws = np.random.default_rng(0)
    x = torch.from_numpy(draws.normal(size=(replicas, n, 3)))
    parts = torch.zeros(replicas, n, dtype=torch.int64), (x**2).sum(2)
    known = Outcomes(torch.arange(1, n + 1), x, *parts)
    problem = Problem(features=3, groups=1, streams=Streams(0, range(replicas)))
    model = estimator._models(problem, (), [21, 22, n + 1], [20, 20, n], known)
    asked = torch.from_numpy(draws.normal(size=(replicas, 1, 7, 3)))
    return model, asked, torch.zeros(replicas, 1, 7, dtype=torch.int64)


def test_networks_that_are_trained_together_agree_but_for_rounding() -> None:
    alone, together = (Network(**SMALL, together=flag) for flag in (False, True))
    (one, x, g), (other, _, _) = models(alone), models(together)
    torch.testing.assert_close(one.score(x, g), other.score(x, g), rtol=1e-9, atol=1e-9)


def test_heads_have_their_bounds_and_draws() -> None:
    optimistic, x, g = models(
        Network(**SMALL, head={"name": "optimistic_ridge", "exploration": 2.0})
    )
    low, high = optimistic.bounds(x, g)
    torch.testing.assert_close(high, optimistic.score(x, g))
    plain, _, _ = models(Network(**SMALL))
    torch.testing.assert_close((low + high) / 2, plain.score(x, g))
    drawn, _, _ = models(Network(**SMALL, head="thompson_ridge"))
    first, second, _ = drawn.score(x, g).unbind(1)
    assert not torch.equal(first, second), "two rounds share a draw"
    same, again, _ = plain.score(x, g).unbind(1)
    assert torch.equal(same, again)


class Two(nn.Module):
    def __init__(self, features: int, hidden: int = 5) -> None:
        super().__init__()
        self.layer = nn.Linear(features, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).tanh()


def test_an_own_network_comes_from_python_or_by_its_dotted_name() -> None:
    named = {"_target_": f"{__name__}.Two", "hidden": 6}
    for make in (Two, lambda d: Two(d, 6), named):
        model, x, g = models(Network(make=make, steps=3))
        assert model.score(x, g).shape == (2, 3, 7)
    world = support.environment()
    own = _with(Network(make=lambda d: Two(d, 6), **SMALL))
    decided = [support.actions(chosen, world, 20) for chosen in (own, policy(make=named))]
    assert torch.equal(*decided)


def test_a_file_runs_no_code_and_an_own_network_is_given_again(tmp_path: Path) -> None:
    """The saved agent and its log name the network; both are data."""
    named = {"_target_": f"{__name__}.Two", "hidden": 6}
    for make in (named, Two):
        chosen = _with(Network(make=make, **SMALL))
        folder = tmp_path / str(callable(make))
        folder.mkdir()
        agent = Agent(chosen, features=3, groups=2, log=folder / "log.jsonl")
        draws = np.random.default_rng(0)
        for _ in range(4):
            agent.act(draws.normal(size=(4, 3)), [0, 1, 0, 1])
            agent.update(1.0)
        agent.save(folder / "agent")
        agent.close()
        with pytest.raises(FairbanditError, match="policy="):
            Agent.load(folder / "agent")
        with pytest.raises(FairbanditError, match="policy="):
            replay(folder / "log.jsonl")
        assert replay(folder / "log.jsonl", policy=chosen).decisions == 4
        loaded = Agent.load(folder / "agent", policy=chosen)
        pool = draws.normal(size=(4, 3))
        assert loaded.act(pool, [0, 1, 0, 1]).picks == twin(chosen, pool).picks
        with pytest.raises(FairbanditError, match="expected the policy that was saved"):
            Agent.load(folder / "agent", policy=_with(Network(make=make)))


def twin(chosen: Any, last: Any) -> Any:
    """The decision about a pool of an agent that was never saved."""
    agent, draws = Agent(chosen, features=3, groups=2), np.random.default_rng(0)
    for _ in range(4):
        agent.act(draws.normal(size=(4, 3)), [0, 1, 0, 1])
        agent.update(1.0)
    return agent.act(last, [0, 1, 0, 1])


def _with(estimator: Network) -> Any:
    return build({"split": "full", "estimator": estimator, "rank": "identity", "refresh": REFRESH})


def test_mistakes_are_named() -> None:
    for wrong, message in (
        ({"widths": []}, "widths must be one or more above 0"),
        ({"head": "normal_scores"}, "head: expected an estimator that keeps sums"),
        ({"head": "oracle"}, "needs truth"),
        ({"make": {"hidden": 3}}, "make: expected a function"),
    ):
        with pytest.raises(FairbanditError, match=message):
            create("estimator", {"name": "neural_linear", **wrong})
    makes: list[tuple[Any, str]] = [
        (lambda d: d, "expected a torch.nn.Module, got int"),
        ({"_target_": "nothing.Here"}, "_target_=nothing.Here: No module named 'nothing'"),
        (lambda d: nn.Flatten(0), r"maps \(n, 3\) to \(n, p\)"),
    ]
    for make, message in makes:
        with pytest.raises(FairbanditError, match=message):
            models(Network(make=make))
    with pytest.raises(FairbanditError, match="training diverged"):
        models(Network(learning_rate=1e300))
