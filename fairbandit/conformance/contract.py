"""Checks of a constructor and of the values that methods return."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace

import torch

from fairbandit import registry
from fairbandit.conformance.world import (
    ASKERS,
    CLOSE,
    ConformanceError,
    Spec,
    asked,
    class_of,
    engine_with,
)
from fairbandit.streams import Streams


def constructible(kind: str, spec: Spec) -> None:
    """Builds from its name alone, and again from its own description."""
    given = spec if isinstance(spec, Mapping) else {"name": spec}
    signature = inspect.signature(class_of(kind, spec))
    missing = [
        key
        for key, parameter in signature.parameters.items()
        if parameter.default is parameter.empty and key not in given
    ]
    if missing and kind == "environment":
        return  # no table has a path by default
    if missing:
        raise ConformanceError(f"constructor arguments without a default: {', '.join(missing)}")
    made = registry.create(kind, given)
    again = registry.create(kind, registry.describe(made))
    if registry.describe(again) != registry.describe(made):
        raise ConformanceError(
            "built again from its own description it differs: "
            f"{registry.describe(made)} became {registry.describe(again)}"
        )


def splits_soundly(kind: str, spec: Spec) -> None:
    """Gives whole rounds before t, a field (N,) each, that never move back as t grows."""
    split, t = engine_with(kind, spec).policy.split, torch.arange(1, 200)
    for name, field in split.divide(t)._asdict().items():
        if field.shape != t.shape:
            raise ConformanceError(f"`{name}` has shape {tuple(field.shape)}; expected (N,)")
        back = (field.diff() < 0).nonzero()
        if len(back):
            raise ConformanceError(f"`{name}` moves back after round {int(t[back[0]])}")


def ties(kind: str, spec: Spec) -> None:
    """Gives an upper index of the index's shape, nowhere below the index itself."""
    candidates, policy = asked(kind, spec)
    index = policy.rank.index(candidates)
    upper = policy.rank.upper_index(index, candidates)
    if upper.shape != index.shape or bool((upper < index)[candidates.present].any()):
        raise ConformanceError(
            "`upper_index` must be as large as the index or larger, place by place"
        )


def permutes(kind: str, spec: Spec) -> None:
    """Permuting the candidates of a pool permutes their indices."""
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    candidates, policy = asked(kind, spec)
    index = policy.rank.index(candidates)[:, :, order]
    again, policy = asked(kind, spec)
    contexts, groups = again.contexts[:, :, order], again.groups[:, :, order]
    shuffled = replace(again, contexts=contexts, groups=groups)
    apart = ~policy.rank.index(shuffled).isclose(index, rtol=CLOSE, atol=CLOSE)
    apart &= shuffled.groups >= 0
    if bool(apart.any()):
        b, n, k = apart.nonzero()[0].tolist()
        raise ConformanceError(
            "permuting the candidates does more than permute their indices, as for the one from "
            f"place {order[k]} of replica {b} in round {again.first + n}"
        )


def monotone(kind: str, spec: Spec) -> None:
    """Within a group, a higher score never has a lower index."""
    candidates, policy = asked(kind, spec)
    index, scores, groups = policy.rank.index(candidates), candidates.scores, candidates.groups
    above = scores[..., :, None] > candidates.upper_scores[..., None, :]
    above &= (groups[..., :, None] == groups[..., None, :]) & candidates.present[..., None]
    fallen = above & (index[..., :, None] < index[..., None, :] - 1e-12)
    if bool(fallen.any()):
        b, n, one, other = fallen.nonzero()[0].tolist()
        raise ConformanceError(
            f"not monotone: in round {candidates.first + n}, group {groups[b, n, one]}, "
            f"scores {scores[b, n, other]:.6g} < {scores[b, n, one]:.6g} have indices "
            f"{index[b, n, other]:.6g} > {index[b, n, one]:.6g}"
        )


def models_soundly(kind: str, spec: Spec) -> None:
    """Gives finite scores (B, U, M), which are those of `theta` where a model has one."""
    candidates, _ = asked(kind, spec)
    model, contexts = candidates.model, candidates.contexts[:, :1, :, :]
    score = model.score(contexts, candidates.groups[:, :1])
    expected = (ASKERS, len(model), contexts.shape[2])
    if tuple(score.shape) != expected or score.dtype != torch.float64:
        raise ConformanceError(
            f"scores have shape {tuple(score.shape)} and {score.dtype}; "
            f"expected (B, U, M) = {expected} and torch.float64"
        )
    if not bool(score.isfinite().all()):
        raise ConformanceError("scores are not all finite")
    if int(candidates.of_round.max()) >= len(model):
        raise ConformanceError("fewer models than numbers of training rounds")
    if model.theta is not None:
        gap = float((model.theta @ contexts[:, 0].mT - score).abs().max())
        if gap > CLOSE:
            raise ConformanceError(f"scores differ from ⟨theta, x⟩ by up to {gap:.3g}")
    if bool((candidates.upper_scores < candidates.scores).any()):
        raise ConformanceError("an upper score is below its score")


def draws_soundly(kind: str, spec: Spec) -> None:
    """Pools are sound: true rewards are the truth's, and ranks between 0 and 1."""
    world = registry.create(kind, spec)
    world.bind(Streams(0, range(2)))
    pools = world.pools(1, 200)
    if world.truth is not None:
        true = world.truth.score(pools.contexts, pools.groups.clamp(min=0))
        gap = float((true - pools.expected)[pools.groups >= 0].abs().max())
        if gap > 1e-6:
            raise ConformanceError(
                f"expected rewards differ from the truth's score by up to {gap:.3g}"
            )
    if float(pools.ranks.min()) < 0 or float(pools.ranks.max()) > 1:
        raise ConformanceError("relative ranks must be from 0 to 1")
