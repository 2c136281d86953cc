"""What every registered part owes, as checks that a plugin's author can run too.

Each check raises `ConformanceError` with the reason. In a test suite of one's own:

    @pytest.mark.parametrize("check", conformance.checks("rank"), ids=lambda check: check.__name__)
    def test_my_rank(check):
        check("rank", "my_rank")

A part that draws random numbers is held to the same checks given the same draws.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.build import build
from fairbandit.engine import Engine
from fairbandit.environments.base import Environment, Oracle, Pools
from fairbandit.errors import FairbanditError
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.maths.ties import ceiling
from fairbandit.parts import Candidates
from fairbandit.policy import Policy
from fairbandit.streams import GRID, Purpose

ROUNDS = 40
REPLICAS = 3

Check = Callable[[str, str], None]


class ConformanceError(FairbanditError):
    """A part does not keep the contract; the message names the fault."""


class Scattered(Environment):
    """A small problem with everything awkward: random groups, a rare one, empty places.

    Args:
        upset_after: rewards of later rounds are different; None leaves all alone.
    """

    part_kind, part_name = "environment", "scattered"

    def __init__(self, upset_after: int | None = None) -> None:
        self.features, self.places, self.group_names = 4, 6, ("often", "seldom", "rare")
        self.upset_after = upset_after
        draws = np.random.default_rng(0)
        theta = torch.from_numpy(draws.normal(size=4))
        sample = torch.from_numpy(draws.uniform(-1, 1, (500, 4))) @ theta
        self.oracle = Oracle(theta, GroupedCdf([sample, sample + 0.5, sample - 0.5]))

    def _pools(self, first: int, count: int) -> Pools:
        assert self.oracle is not None
        k, theta = self.places, self.oracle.theta
        drawn = self.streams[Purpose.POOLS].uniform(first, count, k * 5)
        contexts = 2 * drawn[..., : 4 * k].unflatten(-1, (k, 4)) - 1
        kind = drawn[..., 4 * k :]
        groups = (kind > 0.6).long() + (kind > 0.85).long()
        groups = torch.where((kind < 0.1) & (torch.arange(k) > 0), -1, groups)
        expected = contexts @ theta
        rewards = expected + self.streams[Purpose.REWARDS].normal(first, count, k)
        if self.upset_after is not None:
            late = torch.arange(first, first + count) > self.upset_after
            rewards = torch.where(late[:, None], -3 * rewards, rewards)
        tops = ceiling(expected, contexts.abs() @ theta.abs())
        return Pools(contexts, groups, rewards, expected, self.oracle.cdf(groups, tops))


def checks(kind: str) -> list[Check]:
    """The checks that parts of a kind must pass."""
    common: list[Check] = [constructible, documented]
    if kind == "environment":
        return [*common, draws_pools, pools_by_address]
    behaviour: list[Check] = [plays, repeats, replicas_alone, rounds_alone, resumes]
    kept: list[Check] = [*common, *behaviour, leaves_global_generators, honours_reach]
    return [*kept, permutes, monotone] if kind == "rank" else kept


def constructible(kind: str, name: str) -> None:
    """Builds from its name alone, or says which parameters it cannot do without."""
    missing = [
        key
        for key, parameter in inspect.signature(registry.lookup(kind, name)).parameters.items()
        if parameter.default is parameter.empty
    ]
    if missing and kind != "environment":
        raise ConformanceError(f"constructor arguments without a default: {', '.join(missing)}")
    if not missing:
        made = registry.create(kind, name)
        again = registry.create(kind, registry.describe(made))
        if registry.describe(again) != registry.describe(made):
            raise ConformanceError(
                "built again from its own description it differs: "
                f"{registry.describe(made)} became {registry.describe(again)}"
            )


def documented(kind: str, name: str) -> None:
    """Has a docstring of its own and, if a part of a policy, a reference."""
    cls = registry.lookup(kind, name)
    if not (cls.__dict__.get("__doc__") or "").strip():
        raise ConformanceError("no docstring")
    if kind != "environment" and not cls.reference:
        raise ConformanceError("no `reference`: where does it come from?")


def plays(kind: str, name: str) -> None:
    """Plays some rounds without breaking a contract that the public methods check."""
    for split in ("halves", "full"):
        _play(kind, name, split=split)


def repeats(kind: str, name: str) -> None:
    """Decides alike when run twice under one seed."""
    _same(_play(kind, name), _play(kind, name), "two runs under one seed")


def replicas_alone(kind: str, name: str) -> None:
    """Decides for each of B replicas as it does for that replica alone."""
    together = _play(kind, name)
    for replica in range(REPLICAS):
        alone = _play(kind, name, replicas=[replica])
        _same(together[replica : replica + 1], alone, f"replica {replica} in company and alone")


def rounds_alone(kind: str, name: str) -> None:
    """Decides a block of rounds as it decides them one at a time."""
    _same(_play(kind, name), _play(kind, name, at_once=1), "rounds in blocks and one at a time")


def resumes(kind: str, name: str) -> None:
    """Goes on from a saved state as if never stopped."""
    rounds = GRID + ROUNDS
    whole = _play(kind, name, rounds=rounds)
    first, second = (_engine(kind, name, rounds=rounds) for _ in range(2))
    pieces = first.play()
    head = next(pieces).actions
    second.load_state(first.state())
    tail = torch.cat([played.actions for played in second.play()], 1)
    _same(whole, torch.cat([head, tail], 1), "a run never stopped and one resumed from its state")


def leaves_global_generators(kind: str, name: str) -> None:
    """Draws from the problem's streams only, never from a global generator."""
    before = (torch.get_rng_state(), np.random.get_state()[1], random.getstate())  # noqa: NPY002
    _play(kind, name)
    after = (torch.get_rng_state(), np.random.get_state()[1], random.getstate())  # noqa: NPY002
    touched = [
        generator
        for generator, same in (
            ("torch's", bool(torch.equal(before[0], after[0]))),
            ("NumPy's", bool(np.array_equal(before[1], after[1]))),
            ("Python's", before[2] == after[2]),
        )
        if not same
    ]
    if touched:
        raise ConformanceError(f"it draws from {' and '.join(touched)} global generator")


def honours_reach(kind: str, name: str) -> None:
    """A reward beyond `reach(t)` changes nothing at round t."""
    for split in ("halves", "full"):
        calm = _play(kind, name, split=split, at_once=1)
        for after in (5, 17, 30):
            upset = _play(kind, name, split=split, at_once=1, world=Scattered(after))
            policy = _engine(kind, name, split=split).policy
            blind = [t for t in range(1, ROUNDS + 1) if policy.reach(t) <= after]
            changed = [t for t in blind if not torch.equal(calm[:, t - 1], upset[:, t - 1])]
            if changed:
                t = changed[0]
                raise ConformanceError(
                    f"under split {split!r} the decision at round {t} changes with a reward "
                    f"later than reach({t}) = {policy.reach(t)}"
                )


def permutes(kind: str, name: str) -> None:
    """Permuting the candidates of a pool permutes their indices."""
    asked, policy = _asked(kind, name)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled = _replaced(asked, asked.contexts[:, :, order], asked.groups[:, :, order])
    settled = _settled(asked)[:, :, order]
    index = policy.rank.index(asked)[:, :, order]
    if not torch.allclose(policy.rank.index(shuffled)[settled], index[settled], rtol=1e-12):
        raise ConformanceError("permuting the candidates does more than permute their indices")


def monotone(kind: str, name: str) -> None:
    """Within a group, a higher score never has a lower index."""
    asked, policy = _asked(kind, name)
    index, scores, groups = policy.rank.index(asked), asked.scores, asked.groups
    settled = _settled(asked)
    for one in range(groups.shape[2]):
        for other in range(groups.shape[2]):
            pair = settled[..., one] & settled[..., other]
            pair &= (groups[..., one] == groups[..., other]) & (
                scores[..., one] > asked.ceilings[..., other]
            )
            fallen = pair & (index[..., one] < index[..., other] - 1e-12)
            if bool(fallen.any()):
                b, n = fallen.nonzero()[0].tolist()
                raise ConformanceError(
                    f"not monotone: in round {asked.first + n}, group {groups[b, n, one]}, scores "
                    f"{scores[b, n, other]:.6g} < {scores[b, n, one]:.6g} have indices "
                    f"{index[b, n, other]:.6g} > {index[b, n, one]:.6g}"
                )


def draws_pools(kind: str, name: str) -> None:
    """Pools are sound: true rewards from the true θ, and ranks between 0 and 1."""
    world = _environment(name)
    Engine(_policy("selector", "argmax", "halves"), world, rounds=1, seed=0, replicas=range(2))
    pools = world.pools(1, 200)
    if world.oracle is not None:
        gap = (pools.contexts @ world.oracle.theta - pools.expected).abs().max()
        if float(gap) > 1e-6:
            raise ConformanceError(f"expected rewards differ from ⟨θ, x⟩ by up to {float(gap):.3g}")
    if float(pools.ranks.min()) < 0 or float(pools.ranks.max()) > 1:
        raise ConformanceError("relative ranks must be from 0 to 1")


def pools_by_address(kind: str, name: str) -> None:
    """A pool depends on its seed, replica and round, not on how rounds are asked for."""
    runs = []
    for replicas, pieces in (([0, 1], [(1, 150)]), ([1], [(1, 70), (71, 80)])):
        world = _environment(name)
        policy = _policy("selector", "argmax", "halves")
        Engine(policy, world, rounds=1, seed=4, replicas=replicas)
        parts = [world.pools(*piece) for piece in pieces]
        runs.append(
            [torch.cat([p.contexts[-1] for p in parts]), torch.cat([p.rewards[-1] for p in parts])]
        )
    for one, other in zip(*runs, strict=True):
        if not torch.allclose(one, other, rtol=1e-12):
            raise ConformanceError("the pools of a round change with how rounds are asked for")


def _environment(name: str) -> Environment:
    made = build({"name": name})
    assert isinstance(made, Environment)
    return made


def _policy(kind: str, name: str, split: str) -> Policy:
    parts: dict[str, Any] = {"split": split, "estimator": "ridge", "rank": "empirical_cdf"}
    made = build({**parts, "selector": "argmax", kind: name})
    assert isinstance(made, Policy)
    return made


def _engine(
    kind: str,
    name: str,
    *,
    split: str = "halves",
    rounds: int = ROUNDS,
    replicas: list[int] | None = None,
    at_once: int = GRID,
    world: Environment | None = None,
) -> Engine:
    return Engine(
        _policy(kind, name, split),
        world or Scattered(),
        rounds=rounds,
        seed=1,
        replicas=list(range(REPLICAS)) if replicas is None else replicas,
        at_once=at_once,
    )


def _play(kind: str, name: str, **options: Any) -> Tensor:
    return torch.cat([played.actions for played in _engine(kind, name, **options).play()], 1)


def _same(one: Tensor, other: Tensor, what: str) -> None:
    if not torch.equal(one, other):
        replica, place = (one != other).nonzero()[0].tolist()
        raise ConformanceError(
            f"{what} decide differently, first at round {place + 1}"
            f" (replica {replica} of the batch)"
        )


def _asked(kind: str, name: str) -> tuple[Candidates, Policy]:
    """A round of candidates after some rounds of play, as the rank is asked about them."""
    engine = _engine(kind, name)
    for _ in engine.play():
        pass
    pools, policy = engine.environment.pools(ROUNDS + 1, 1), engine.policy
    engine.history.add_pools(pools.contexts, pools.groups)
    spans = policy.split.spans(torch.tensor([ROUNDS + 1]))
    model, of_round = policy.estimator.models(spans.taught, engine.history)
    asked = Candidates(
        ROUNDS + 1,
        spans,
        pools.contexts,
        pools.groups,
        model,
        of_round,
        engine.history,
        engine.streams[Purpose.RANK],
    )
    return asked, policy


def _settled(asked: Candidates) -> Tensor:
    """Candidates whose index is no draw: present, and of a group that was seen if that matters."""
    present = asked.groups >= 0
    return present & (asked.past.count > 0) if "contexts" in asked.history.needs else present


def _replaced(asked: Candidates, contexts: Tensor, groups: Tensor) -> Candidates:
    return Candidates(
        asked.first,
        asked.spans,
        contexts,
        groups,
        asked.model,
        asked.of_round,
        asked.history,
        asked.stream,
    )
