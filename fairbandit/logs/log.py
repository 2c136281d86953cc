"""Logged decisions as arrays, whoever made them and however they were stored."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError
from fairbandit.files import written_aside

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Log:
    """n decisions, each of m picks from a pool of at most K candidates with d features.

    Attributes:
        groups: the number of each candidate's group, (n, K); −1 for an empty place.
        labels: the groups' labels, by number.
        picks: the places picked, in order of preference, (n, m); −1 for an empty slot.
        rewards: of the picks, (n, m); NaN where none is known.
        propensities: the probability with which each pick was picked, (n, m); NaN where unknown.
        contexts: (n, K, d); None where the log leaves them out.
        probabilities: of all candidates to be picked, (n, K); None where only `propensities` are
            known.
        features: the names of the d features.
        names: what the log calls the decisions, n of them.
        scores: a score of each candidate, (n, K), NaN for none; None where there are none.
        attributes: further group columns by name, each with numbers (n, K) and labels.
        adaptive: whether decisions depend on earlier rewards, as those of a learning agent do.
        draws_models: whether probabilities are given a draw of the model, as in posterior sampling:
            then they do not say how probable a pick was.
        hashes: the hashes of its lines, if it is a log of ours.
    """

    groups: Ints
    labels: tuple[Hashable, ...]
    picks: Ints
    rewards: Floats
    propensities: Floats
    contexts: Floats | None
    probabilities: Floats | None
    features: tuple[str, ...]
    names: Sequence[Any]
    scores: Floats | None = None
    attributes: Mapping[str, tuple[Ints, tuple[str, ...]]] | None = None
    adaptive: bool = False
    draws_models: bool = False
    hashes: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, rows: Any) -> Log:
        """Some decisions: a slice, places or truth values."""
        parts: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray) or field.name == "names":
                parts[field.name] = np.asarray(value)[rows]
        if self.attributes is not None:
            parts["attributes"] = {
                name: (numbers[rows], labels) for name, (numbers, labels) in self.attributes.items()
            }
        return replace(self, **parts)

    @property
    def missing(self) -> float:
        """The share of the picks whose reward is not known."""
        picked = self.picks >= 0
        return float((np.isnan(self.rewards) & picked).sum() / max(picked.sum(), 1))

    @cached_property
    def picked(self) -> NDArray[np.bool_]:
        """Which candidates were picked, (n, K)."""
        where = np.zeros(self.groups.shape, dtype=np.bool_)
        rows, slots = np.nonzero(self.picks >= 0)
        where[rows, self.picks[rows, slots]] = True
        return where

    def at_picks(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values (n, K, …) of the picks, (n, m, …); those of place 0 at empty slots."""
        return values[np.arange(len(self))[:, None], self.picks.clip(min=0)]

    @property
    def frame(self) -> pd.DataFrame:
        """The log as a pandas table with a row for each candidate.

        Its columns are `decision, group, picked, propensity, reward`, then the features and the
        score; the propensity is that of each candidate, as far as it is known.
        """
        import pandas as pd

        rows, places = np.nonzero(self.groups >= 0)
        per_place = np.full(self.groups.shape, np.nan), np.full(self.groups.shape, np.nan)
        at, slots = np.nonzero(self.picks >= 0)
        for whole, values in zip(per_place, (self.propensities, self.rewards), strict=True):
            whole[at, self.picks[at, slots]] = values[at, slots]
        chances = per_place[0] if self.probabilities is None else self.probabilities
        table = {
            "decision": np.asarray(self.names)[rows],
            "group": np.array([*self.labels, None], dtype=object)[self.groups[rows, places]],
            "picked": self.picked[rows, places],
            "propensity": chances[rows, places],
            "reward": per_place[1][rows, places],
        }
        if self.contexts is not None:
            table |= dict(zip(self.features, self.contexts[rows, places].T, strict=True))
        if self.scores is not None:
            table["score"] = self.scores[rows, places]
        return pd.DataFrame(table)

    def to_dsjson(self, path: str | PathLike[str]) -> None:
        """Writes the log as Vowpal Wabbit's DSJSON, for `--dsjson --cb_explore_adf`.

        Each decision is a line, with the reward as a negative cost. Decisions without a known
        reward, propensity or context are left out, since the format has no word for them.

        Raises:
            FairbanditError: shortlists, a log without contexts, or a file that cannot be written.
        """
        if self.picks.shape[1] > 1 or self.contexts is None:
            raise FairbanditError("DSJSON holds decisions of one pick, with their contexts")
        try:
            with written_aside(Path(path)) as file:
                file.writelines(line.encode() for line in self._dsjson(self.contexts))
        except OSError as error:
            raise FairbanditError(f"cannot write {path}: {error.strerror or error}") from error

    def _dsjson(self, contexts: Floats) -> Iterable[str]:
        known = ~np.isnan(self.rewards[:, 0]) & ~np.isnan(self.propensities[:, 0])
        for n in np.flatnonzero(known):
            places = np.flatnonzero(self.groups[n] >= 0)
            pick = int(np.flatnonzero(places == self.picks[n, 0])[0])
            chances = np.zeros(len(places))
            chances[pick] = self.propensities[n, 0]
            if self.probabilities is not None:
                chances = self.probabilities[n, places]
            order = [pick, *(i for i in range(len(places)) if i != pick)]
            actions = [
                {"group": {str(self.labels[self.groups[n, k]]): 1}}
                | {"x": dict(zip(self.features, contexts[n, k].tolist(), strict=True))}
                for k in places
            ]
            record = {
                "_label_cost": -float(self.rewards[n, 0]),
                "_label_probability": float(chances[pick]),
                "_label_Action": pick + 1,
                "_labelIndex": pick,
                "EventId": str(self.names[n]),
                "a": [i + 1 for i in order],
                "p": [float(chances[i]) for i in order],
                "c": {"_multi": actions},
            }
            yield json.dumps(record) + "\n"

    @classmethod
    def joined(cls, logs: Sequence[Self]) -> Self:
        """Several logs as one, in this order.

        Raises:
            FairbanditError: logs of other features, or some with contexts and some without.
        """
        if len(logs) == 1:
            return logs[0]
        first = logs[0]
        if any(
            (one.contexts is None, one.features) != (first.contexts is None, first.features)
            for one in logs
        ):
            raise FairbanditError("logs of different features cannot be one log")
        labels = tuple(dict.fromkeys(label for one in logs for label in one.labels))
        number = {label: code for code, label in enumerate(labels)}
        k, m = (max(getattr(one, name).shape[1] for one in logs) for name in ("groups", "picks"))

        def stacked(name: str, width: int, empty: float) -> Any:
            parts = [getattr(one, name) for one in logs]
            if any(part is None for part in parts):
                return None
            return np.concatenate([_padded(part, width, empty) for part in parts])

        renumbered = [
            replace(
                one, groups=np.array([*(number[label] for label in one.labels), -1])[one.groups]
            )
            for one in logs
        ]
        logs = renumbered
        return replace(
            first,
            labels=labels,
            groups=stacked("groups", k, -1),
            picks=stacked("picks", m, -1),
            rewards=stacked("rewards", m, np.nan),
            propensities=stacked("propensities", m, np.nan),
            contexts=stacked("contexts", k, 0.0),
            probabilities=stacked("probabilities", k, 0.0),
            scores=stacked("scores", k, np.nan),
            names=[name for one in logs for name in one.names],
            adaptive=any(one.adaptive for one in logs),
            draws_models=any(one.draws_models for one in logs),
            hashes=frozenset().union(*(one.hashes for one in logs)),
        )


def _padded(values: NDArray[Any], width: int, empty: float) -> NDArray[Any]:
    """Values (n, K, …) with places up to a width."""
    more = np.full((len(values), width - values.shape[1], *values.shape[2:]), empty)
    return np.concatenate([values, more.astype(values.dtype)], axis=1)


def padded(pools: Sequence[Any], empty: float, dtype: Any = np.float64) -> NDArray[Any]:
    """n lists or arrays of Kᵢ entries as one array (n, K, …), with empty entries behind."""
    width = max(map(len, pools), default=0)
    arrays = [np.asarray(pool, dtype=dtype) for pool in pools]
    whole = np.full((len(pools), width, *arrays[0].shape[1:]), empty, dtype=dtype)
    for row, array in zip(whole, arrays, strict=True):
        row[: len(array)] = array
    return whole
