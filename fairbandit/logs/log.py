"""Logged decisions as arrays, whoever made them and however they were stored."""

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
        rewards: of the picks, (n, m); NaN where none is known.
        propensities: the probability with which each pick was picked, (n, m); NaN where unknown.
        contexts: (n, K, d); None where the log leaves them out.
        probabilities: of all candidates to be picked, (n, K); None where only `propensities` are
            known.
        features: the names of the d features; x0, x1, … stand for features without names.
        names: what the log calls the decisions, n of them.
        scores: a score of each candidate, (n, K), NaN for none; None where there are none.
        group_columns: those of a table by name, each with its label of every group.
        adaptive: whether decisions depend on earlier rewards, as those of a learning agent do.
        draws_models: whether probabilities are given a draw of the model, as in posterior sampling:
            then they do not say how probable a pick was.
        encoder: what encoded the features, if it was read from a table.
        reward: the name of the reward, or None.
        notes: what was left out or decided when it was read.
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
        """Some decisions: a slice, places or truth values."""
        every = {one.name: getattr(self, one.name) for one in fields(self)}
        arrays = {name: one for name, one in every.items() if isinstance(one, np.ndarray)}
        arrays["names"] = np.asarray(self.names)
        return replace(self, **{name: one[rows] for name, one in arrays.items()})

    @property
    def missing(self) -> float:
        """The share of the picks whose reward is not known."""
        picked = self.picks >= 0
        return float((np.isnan(self.rewards) & picked).sum() / max(picked.sum(), 1))

    @cached_property
    def picked(self) -> NDArray[np.bool_]:
        """Which candidates were picked, (n, K)."""
        return self.at_places(np.ones(self.picks.shape, np.bool_), False)

    @property
    def schema(self) -> Schema:
        """The properties by which an agent is compared with the log."""
        d = len(self.features)
        named = self.features != unnamed(d)
        labels = tuple(map(normal, self.labels))
        return Schema(d, self.features if named else None, self.encoder, labels, self.reward)

    @cached_property
    def pick_hashes(self) -> Ints:
        """The hashes of the picks whose rewards are known, (n, 3), decision by decision."""
        forms = [normal(label) for label in self.labels]
        key = cache(lambda row: pool_key(forms[code] for code in row if code >= 0))
        rows = zip(
            np.asarray(self.names).tolist(),
            map(tuple, self.groups.tolist()),
            self.picks.tolist(),
            self.rewards.tolist(),
            [None] * len(self) if self.contexts is None else self.contexts,
            strict=True,
        )
        found = [
            pick_hashes(name, key(groups), place, reward, None if x is None else x[place])
            for name, groups, places, rewards, x in rows
            for place, reward in zip(places, rewards, strict=True)
            if place >= 0 and reward == reward
        ]
        return np.array(found, np.int64).reshape(-1, 3)

    @property
    def attributes(self) -> dict[str, tuple[Ints, tuple[str, ...]]]:
        """The numbers, (n, K), and the labels of the groups of each group column by itself."""
        found = {}
        for name, of_group in self.group_columns.items():
            labels, codes = np.unique(of_group, return_inverse=True)
            found[name] = np.append(codes, -1)[self.groups], tuple(labels.tolist())
        return found

    def at_picks(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values (n, K, …) of the picks, (n, m, …); those of place 0 at empty slots."""
        return values[np.arange(len(self))[:, None], self.picks.clip(min=0)]

    def at_places(self, values: NDArray[Any], empty: Any) -> NDArray[Any]:
        """Values (n, m) of the picks at their places, (n, K), where others are empty."""
        whole = np.full(self.groups.shape, empty, values.dtype)
        filled = self.picks >= 0
        whole[np.nonzero(filled)[0], self.picks[filled]] = values[filled]
        return whole

    @property
    def frame(self) -> pd.DataFrame:
        """The log as a pandas table with a row for each candidate.

        Its columns are `decision, group, picked, propensity, reward`, then the features and the
        score; the propensity is that of each candidate, as far as it is known. Of shortlists,
        `picked` is 1 for the first pick, 2 for the second, …, and 0 for the others.
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
        chances = self.probabilities
        chances = self.at_places(self.propensities, 0.0) if chances is None else chances
        with of_file(Path(path), "cannot write"), written_aside(Path(path)) as file:
            for n in np.flatnonzero(~np.isnan(self.rewards[:, 0])).tolist():
                present = self.groups[n] >= 0
                p, pick = chances[n, present].tolist(), int(self.picked[n, present].argmax())
                order = [pick, *(place for place in range(len(p)) if place != pick)]
                candidates = zip(self.groups[n, present], self.contexts[n, present], strict=True)
                actions = [
                    {
                        "group": {str(self.labels[group]): 1},
                        "x": dict(zip(self.features, x.tolist(), strict=True)),
                    }
                    for group, x in candidates
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
