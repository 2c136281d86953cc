"""Logged decisions as arrays, whoever made them and however they were stored."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.encoder import Encoder
from fairbandit.errors import FairbanditError
from fairbandit.files import of_file, written_aside

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
        attributes: the group columns of a table by name, each with numbers (n, K) and labels;
            `groups` is of all of them together.
        adaptive: whether decisions depend on earlier rewards, as those of a learning agent do.
        draws_models: whether probabilities are given a draw of the model, as in posterior sampling:
            then they do not say how probable a pick was.
        hashes: the hashes of its lines, if it is a log of ours.
        encoder: what encoded the features, if it was read from a table.
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
    attributes: Mapping[str, tuple[Ints, tuple[str, ...]]] = field(default_factory=dict)
    adaptive: bool = False
    draws_models: bool = False
    hashes: frozenset[str] = frozenset()
    encoder: Encoder | None = None

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, rows: Any) -> Log:
        """Some decisions: a slice, places or truth values."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        parts = {name: one[rows] for name, one in values.items() if isinstance(one, np.ndarray)}
        parts["names"] = np.asarray(self.names)[rows]
        every = self.attributes.items()
        attributes = {name: (numbers[rows], labels) for name, (numbers, labels) in every}
        return replace(self, **parts, attributes=attributes)

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
        score; the propensity is that of each candidate, as far as it is known. Of shortlists,
        `picked` is 1 for the first pick, 2 for the second, …, and 0 for the others.
        """
        import pandas as pd

        rows, places = np.nonzero(self.groups >= 0)
        chances, rewards = np.full((2, *self.groups.shape), np.nan)
        order = np.zeros(self.groups.shape, np.int64)
        at, slots = np.nonzero(self.picks >= 0)
        picks = at, self.picks[at, slots]
        chances[picks], rewards[picks] = self.propensities[at, slots], self.rewards[at, slots]
        order[picks] = slots + 1
        chances = chances if self.probabilities is None else self.probabilities
        table = {
            "decision": np.asarray(self.names)[rows],
            "group": np.array([*self.labels, None], dtype=object)[self.groups[rows, places]],
            "picked": (order if self.picks.shape[1] > 1 else self.picked)[rows, places],
            "propensity": chances[rows, places],
            "reward": rewards[rows, places],
        }
        if self.contexts is not None:
            table |= dict(zip(self.features, self.contexts[rows, places].T, strict=True))
        if self.scores is not None:
            table["score"] = self.scores[rows, places]
        return pd.DataFrame(table)

    def to_dsjson(self, path: str | PathLike[str]) -> None:
        """Writes the log as Vowpal Wabbit's DSJSON, for `--dsjson --cb_explore_adf`.

        Each decision is a line, with the reward as a negative cost. Decisions whose reward is not
        known are left out, since the format has no word for them. Where only the propensities of
        picks are known, those of the others are written as 0.

        Raises:
            FairbanditError: shortlists, a log without contexts or propensities, a feature whose
                name begins with `_`, which the format keeps for itself, or a file that cannot be
                written.
        """
        wrong = self.picks.shape[1] > 1 or np.isnan(self.propensities).any()
        if wrong or self.contexts is None or any(name[:1] == "_" for name in self.features):
            raise FairbanditError(
                "DSJSON holds decisions of one pick, with contexts and propensities, and features "
                "whose names do not begin with _"
            )
        with of_file(Path(path), "cannot write"), written_aside(Path(path)) as file:
            for n in np.flatnonzero(~np.isnan(self.rewards[:, 0])).tolist():
                file.write(json.dumps(self._dsjson(n)).encode() + b"\n")

    def _dsjson(self, n: int) -> dict[str, Any]:
        """A decision as Vowpal Wabbit has it."""
        assert self.contexts is not None
        present = self.groups[n] >= 0
        known = np.where(self.picked[n], self.propensities[n, 0], 0.0)
        known = known if self.probabilities is None else self.probabilities[n]
        chances, pick = known[present].tolist(), int(self.picked[n, present].argmax())
        order = sorted(range(len(chances)), key=lambda place: place != pick)
        actions = [
            {
                "group": {str(self.labels[group]): 1},
                "x": dict(zip(self.features, x.tolist(), strict=True)),
            }
            for group, x in zip(self.groups[n, present], self.contexts[n, present], strict=True)
        ]
        return {
            "_label_cost": -float(self.rewards[n, 0]),
            "_label_probability": chances[pick],
            "_label_Action": pick + 1,
            "_labelIndex": pick,
            "EventId": str(self.names[n]),
            "a": [place + 1 for place in order],
            "p": [chances[place] for place in order],
            "c": {"_multi": actions},
        }

    @classmethod
    def joined(cls, logs: Sequence[Self]) -> Self:
        """Several logs as one, in this order; it knows what all of them know.

        Raises:
            FairbanditError: logs of other features or group columns, or some with contexts and some
                without.
        """
        first = logs[0]
        if len({(one.contexts is None, one.features, *one.attributes) for one in logs}) > 1:
            raise FairbanditError("logs of different features or group columns cannot be one log")
        parts: dict[str, Any] = {}
        for name, empty in _EMPTY.items():
            values = [getattr(one, name) for one in logs]
            known = all(one is not None for one in values)
            parts[name] = _stacked(values, empty) if known else None
        parts["groups"], parts["labels"] = _coded([(one.groups, one.labels) for one in logs])
        return replace(
            first,
            **parts,
            names=[name for one in logs for name in one.names],
            attributes={
                name: _coded([one.attributes[name] for one in logs]) for name in first.attributes
            },
            adaptive=any(one.adaptive for one in logs),
            draws_models=any(one.draws_models for one in logs),
            hashes=frozenset().union(*(one.hashes for one in logs)),
        )


_EMPTY = {
    "picks": -1,
    "rewards": np.nan,
    "propensities": np.nan,
    "contexts": 0.0,
    "probabilities": 0.0,
    "scores": np.nan,
}
"""What stands at empty places and slots."""


def _coded(parts: Sequence[tuple[Ints, Sequence[Any]]]) -> tuple[Ints, tuple[Any, ...]]:
    """Numbers of labels, each with its own labels, as numbers of all of them, and these."""
    labels = tuple(dict.fromkeys(label for _, own in parts for label in own))
    number = {label: code for code, label in enumerate(labels)}
    coded = [np.array([*(number[label] for label in own), -1])[codes] for codes, own in parts]
    return _stacked(coded, -1), labels


def _stacked(parts: Sequence[NDArray[Any]], empty: float) -> NDArray[Any]:
    """Arrays (n, K, …) below each other, with empty places up to the largest K."""
    width = max(part.shape[1] for part in parts)
    whole = np.full((sum(map(len, parts)), width, *parts[0].shape[2:]), empty, parts[0].dtype)
    low = 0
    for part in parts:
        whole[low : low + len(part), : part.shape[1]] = part
        low += len(part)
    return whole
