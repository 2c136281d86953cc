"""Logged decisions as arrays."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.encoder import Encoder
from fairbandit.errors import FairbanditError
from fairbandit.files import of_file, written_aside
from fairbandit.labels import normal
from fairbandit.logs.schema import Schema, pick_hashes, pool_key, unnamed

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
        rewards: the rewards of the picks, (n, m); NaN if unknown.
        propensities: the probability with which each pick was picked, (n, m); NaN if unknown.
        contexts: the features of the candidates, (n, K, d); None if the log leaves them out.
        probabilities: the probability of each candidate to be picked, (n, K); None if only
            `propensities` are known.
        features: the names of the d features; x0, x1, … stand for features without names.
        names: the names of the n decisions.
        scores: a score of each candidate, (n, K), NaN if unknown; None without scores.
        group_columns: the group columns of a table by name, each with the label of every group.
        adaptive: whether decisions depend on earlier rewards, as decisions of a learning agent do.
        draws_models: whether probabilities are conditional on a draw of the model, as in posterior
            sampling; they are not propensities then.
        encoder: the encoder of the features, if a table was read.
        reward: the name of the reward, or None.
        notes: the notices of reading, for example on lines that are left out.
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
    group_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    adaptive: bool = False
    draws_models: bool = False
    encoder: Encoder | None = None
    reward: str | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, rows: Any) -> Log:
        """Returns some decisions: a slice, places or truth values."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        values["names"] = np.asarray(self.names)
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        return replace(self, **{name: array[rows] for name, array in arrays.items()})

    @property
    def missing(self) -> float:
        """The share of the picks without a known reward."""
        picked = self.picks >= 0
        return float((np.isnan(self.rewards) & picked).sum() / max(picked.sum(), 1))

    @cached_property
    def picked(self) -> NDArray[np.bool_]:
        """Whether each candidate was picked, (n, K)."""
        return self.at_places(np.ones(self.picks.shape, np.bool_), False)

    @property
    def schema(self) -> Schema:
        """The properties by which an agent is compared with the log."""
        d, labels = len(self.features), tuple(map(normal, self.labels))
        names = None if self.features == unnamed(d) else self.features
        return Schema(d, names, self.encoder, labels, self.reward)

    @cached_property
    def pick_hashes(self) -> Ints:
        """The hashes of the picks whose rewards are known, (n, 3), in order; see `pick_hashes`."""
        forms, known = [normal(label) for label in self.labels], ~np.isnan(self.rewards)
        key = cache(lambda codes: pool_key(forms[code] for code in codes if code >= 0))
        rows, slots = np.nonzero(known & (self.picks >= 0))
        places, names = self.picks[rows, slots], np.asarray(self.names)[rows].tolist()
        pools = [key(tuple(codes)) for codes in self.groups[rows].tolist()]
        rewards = self.rewards[rows, slots].tolist()
        contexts = [None] * len(rows) if self.contexts is None else self.contexts[rows, places]
        picks = zip(names, pools, places.tolist(), rewards, contexts, strict=True)
        return np.array([pick_hashes(*pick) for pick in picks], np.int64).reshape(-1, 3)

    @property
    def attributes(self) -> dict[str, tuple[Ints, tuple[str, ...]]]:
        """The groups of each group column by itself: their numbers, (n, K), and labels."""
        groups = {}
        for name, label_of_group in self.group_columns.items():
            labels, codes = np.unique(label_of_group, return_inverse=True)
            groups[name] = np.append(codes, -1)[self.groups], tuple(labels.tolist())
        return groups

    def at_picks(self, values: NDArray[Any]) -> NDArray[Any]:
        """Gathers values (n, K, …) at the picks, (n, m, …); an empty slot gets place 0."""
        return values[np.arange(len(self))[:, None], self.picks.clip(min=0)]

    def at_places(self, values: NDArray[Any], empty: Any) -> NDArray[Any]:
        """Scatters values (n, m) of the picks to their places, (n, K); others are `empty`."""
        scattered = np.full(self.groups.shape, empty, values.dtype)
        filled = self.picks >= 0
        scattered[np.nonzero(filled)[0], self.picks[filled]] = values[filled]
        return scattered

    @property
    def frame(self) -> pd.DataFrame:
        """The log as a pandas table with a row for each candidate.

        The columns are `decision, group, picked, propensity, reward`, then the features and the
        score. The propensity of a candidate is NaN if unknown. For shortlists, `picked` is 1 for
        the first pick, 2 for the second, …, and 0 for the other candidates.
        """
        import pandas as pd

        present = self.groups >= 0
        chances, order = self.probabilities, self.picked
        if chances is None:
            chances = self.at_places(self.propensities, np.nan)
        if (m := self.picks.shape[1]) > 1:
            order = self.at_places(np.broadcast_to(np.arange(m) + 1, self.picks.shape), 0)
        table = {
            "decision": np.repeat(np.asarray(self.names), present.sum(1)),
            "group": np.array([*self.labels, None], dtype=object)[self.groups[present]],
            "picked": order[present],
            "propensity": chances[present],
            "reward": self.at_places(self.rewards, np.nan)[present],
        }
        if self.contexts is not None:
            table |= dict(zip(self.features, self.contexts[present].T, strict=True))
        if self.scores is not None:
            table["score"] = self.scores[present]
        return pd.DataFrame(table)

    def to_dsjson(self, path: str | PathLike[str]) -> None:
        """Writes the log as Vowpal Wabbit's DSJSON, for `--dsjson --cb_explore_adf`.

        Each decision is a line, with the reward as a negative cost. Decisions without a known
        reward are left out, since the format cannot hold them. Unknown propensities of candidates
        that were not picked are written as 0.

        Raises:
            FairbanditError: the log has shortlists or lacks contexts or propensities, the name of a
                feature begins with `_`, or the file cannot be written.
        """
        wrong = self.picks.shape[1] > 1 or np.isnan(self.propensities).any()
        if wrong or self.contexts is None or any(name[:1] == "_" for name in self.features):
            raise FairbanditError(
                "DSJSON holds decisions of one pick, with contexts and propensities, and features "
                "whose names do not begin with _"
            )
        chances = self.probabilities
        chances = self.at_places(self.propensities, 0.0) if chances is None else chances
        with of_file(Path(path), "cannot write"), written_aside(Path(path)) as file:
            for n in np.flatnonzero(~np.isnan(self.rewards[:, 0])).tolist():
                present = self.groups[n] >= 0
                p, pick = chances[n, present].tolist(), int(self.picked[n, present].argmax())
                order = [pick, *(place for place in range(len(p)) if place != pick)]
                labels = [str(self.labels[group]) for group in self.groups[n, present]]
                actions = [
                    {"group": {label: 1}, "x": dict(zip(self.features, x.tolist(), strict=True))}
                    for label, x in zip(labels, self.contexts[n, present], strict=True)
                ]
                line = {
                    "_label_cost": -float(self.rewards[n, 0]),
                    "_label_probability": p[pick],
                    "_label_Action": pick + 1,
                    "_labelIndex": pick,
                    "EventId": str(self.names[n]),
                    "a": [place + 1 for place in order],
                    "p": [p[place] for place in order],
                    "c": {"_multi": actions},
                }
                file.write(json.dumps(line).encode() + b"\n")
