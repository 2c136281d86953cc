"""Explanations of decisions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fairbandit.agent.inputs import Pool, whole
from fairbandit.agent.ledger import Ledger
from fairbandit.agent.offers import Offers
from fairbandit.agent.reasons import Asked, Needed, needed, reasons
from fairbandit.agent.state import with_groups
from fairbandit.errors import FairbanditError, brief, shown
from fairbandit.estimators import NoBounds
from fairbandit.history import History
from fairbandit.logs import Floats
from fairbandit.logs.schema import unnamed
from fairbandit.notices import remark
from fairbandit.ranks import Scored
from fairbandit.selectors import Ranked, Rolling

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The quantities behind the decision about a pool of K candidates; it prints as a table.

    Scores, bounds and θ come from the reward model of the next round, with the draws of that round.
    Until the first reward is known, all indices of a learning policy are 0.

    Attributes:
        groups: the labels of the K candidates' groups.
        scores: the candidates' scores, (K,).
        lower, upper: confidence bounds of the true rewards, (K,) each; None if the estimator's
            models lack bounds.
        index: the index that the rank computes and the selector picks by, (K,).
        index_lower, index_upper: bounds of the index of the true rewards, (K,) each; None if the
            rank or the estimator's models lack bounds.
        past_count: the number of past contexts of its group with which each candidate is compared,
            (K,) int64; None if the rank does not read past contexts.
        probabilities: the probability of each candidate to be picked, (K,), given the past and the
            round's draws of the estimator and the rank.
        threshold: the least index of each candidate that is taken, (K,), for selectors whose
            candidates come one at a time; else None.
        to_come: the expected number of candidates from each on, with itself, (K,), or None.
        theta: θ, (d,); None if the score is not a linear function of the context.
        picked: whether each candidate was picked, (K,) bool; None unless the decision is logged.
        note: a sentence that warns of the scores of a reward model with no reward, or with fewer
            rewards than features; "" otherwise. It is the last line of the printed table.
    """

    groups: tuple[Hashable, ...]
    scores: Tensor
    lower: Tensor | None
    upper: Tensor | None
    index: Tensor
    index_lower: Tensor | None
    index_upper: Tensor | None
    past_count: Tensor | None
    probabilities: Tensor
    threshold: Tensor | None
    to_come: Tensor | None
    theta: Tensor | None
    picked: Tensor | None
    note: str
    _asked: Asked

    def reasons(self, candidate: int, against: str = "group") -> pd.DataFrame:
        """Decomposes a score, less the mean past score of the candidate's group, by feature.

            score − mean past score = Σ_j θ_j (x_j − x̄_j)

        Args:
            candidate: the place of the candidate in the pool, from 0.
            against: the past candidates in the rank window whose mean is x̄: `group` for those of
                the candidate's group, or `all`.

        Returns:
            A row for each feature, or for each column of the encoder, whose features are summed:
            `feature`, `value`, the `mean` of the past for numbers, and the `contribution` to the
            sum. A product with a column whose value all these candidates share, such as the group,
            counts as a part of the other column. A contribution within rounding of 0 is 0. The
            strongest reasons against the candidate come first. The value of a missing number is
            NaN, and of a missing or unknown code None; in the mean and the contribution it counts
            as the mean of the table.

        Raises:
            FairbanditError: the score is not linear, the policy reads no past contexts, the rank
                window holds none, or `against` is unknown.
        """
        return reasons(self._asked, self._place(candidate), against)

    def needed(self, candidate: int) -> Needed:
        """Finds the score, and for each column alone the value, at which a candidate is the choice.

        For m picks, the choice is the m most probable candidates, if no other is as probable:
        without exploration, their probability is 1. For a candidate who is the choice already, the
        values are the last with which the candidate stays the choice. The other candidates, the
        round and its draws stay the same; the pool is decided anew with each value that is tried.
        Values are tried within the range of the encoder's table, or if there is none, up to a
        million times their size away. The search begins at the present value, or at the mean of
        the table for a missing one. In a column whose numbers are all whole in the table, such as
        0 and 1, only whole numbers are tried. A linear score turns at most once within the range,
        by the square of the column, and the value at which it turns is tried, so that the nearest
        value that suffices is found. Of other scores, 100 evenly spaced values are tried.

        Args:
            candidate: the place of the candidate in the pool, from 0.
        """
        return needed(self._asked, self._place(candidate))

    def to_frame(self) -> pd.DataFrame:
        """Returns the printed table with all digits, with a row for each candidate."""
        import pandas as pd

        columns = {**self._columns, "group": self.groups}
        return pd.DataFrame({name: list(values) for name, values in columns.items()})

    def _place(self, candidate: int) -> int:
        place = whole(candidate, "candidate")
        if place >= len(self.groups):
            raise FairbanditError(f"candidate: the pool has {len(self.groups)}, got {candidate}")
        if self.note:
            remark(self.note)
        return place

    def __repr__(self) -> str:
        cells = [[name, *map(_text, values)] for name, values in self._columns.items()]
        widths = [max(map(len, column)) for column in cells]
        rows = zip(*cells, strict=True)
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        return "\n".join([*lines, self.note] if self.note else lines)

    @property
    def _columns(self) -> dict[str, Sequence[Any]]:
        tensors = {
            "score": self.scores,
            "lower": self.lower,
            "upper": self.upper,
            "index": self.index,
            "index_lower": self.index_lower,
            "index_upper": self.index_upper,
            "past": self.past_count,
            "threshold": self.threshold,
            "to_come": self.to_come,
            "probability": self.probabilities,
            "picked": self.picked,
        }
        of_tensors = {name: t.tolist() for name, t in tensors.items() if t is not None}
        groups = [*map(shown, self.groups)]
        return {"candidate": range(len(groups)), "group": groups, **of_tensors}


def explanation(
    ledger: Ledger, pool: Pool, picks: int, offers: Offers | None = None
) -> Explanation:
    """Explains the decision about a pool, or about the next candidate of an opening."""
    policy, reader, lock = ledger.policy, ledger.reader, ledger.lock
    state, codes = with_groups(policy, ledger.state, pool.labels)
    m, history = min(whole(picks, "picks", 1), len(codes)), state.numbered
    groups, selector = torch.from_numpy(codes)[None, None], policy.selector

    def play(contexts: Floats) -> tuple[Ranked, tuple[Tensor, Tensor | None, Tensor | None]]:
        with lock, torch.inference_mode():
            ranked = policy.considered(history, torch.from_numpy(contexts)[None, None], groups)
            if not isinstance(selector, Rolling):
                return ranked, (selector.select(ranked, m).inclusion, None, None)
            if offers is None:
                return ranked, selector.course(ranked, m)[1:]
            _, (_, *step) = offers.step(selector, ranked)
            inclusion, bars, expected = (part[..., None] for part in step)
            return ranked, (inclusion, bars, expected)

    names, compares = reader.names or unnamed(reader.features), "contexts" in policy.rank.needs
    asked = Asked(pool.contexts, names, reader.encoder, pool.rows, compares, m, play)
    ranked, (inclusion, bars, expected) = play(pool.contexts)
    scored = ranked.scored
    values: dict[str, Tensor | None] = {
        "scores": scored.scores.value,
        "index": ranked.index.value,
        "past_count": scored.past.count.to(torch.int64) if compares else None,
        "probabilities": inclusion,
        "threshold": bars,
        "to_come": expected,
        "theta": scored.models.distinct.theta,
    }
    values |= dict.fromkeys(["lower", "upper", "index_lower", "index_upper"])
    with suppress(NoBounds):
        values["lower"], values["upper"] = scored.bounds()
        bounds = policy.rank.bounds(scored, ranked.index)
        values["index_lower"], values["index_upper"] = Ranked(scored, ranked.index, bounds).bounds
    with torch.inference_mode(False):  # copies, which the caller can modify and differentiate
        copies: dict[str, Any] = {
            name: None if tensor is None else tensor[0, 0].detach().clone()
            for name, tensor in values.items()
        }
    labels = tuple(map(state.groups.spellings.__getitem__, codes.tolist()))
    note = _note(state.learned, history, scored) if policy.learns else ""
    return Explanation(groups=labels, **copies, picked=None, note=note, _asked=asked)


def _note(learned: int, history: History, scored: Scored) -> str:
    """Returns a warning of a reward model with few rewards, or ""."""
    if scored.models.informed is not None:
        return "The reward model has learned from no reward yet: all candidates tie."
    outcomes, n_train = history.outcomes, int(scored.plan.n_train[0])
    later = outcomes.n - outcomes.counts([n_train])[0]  # rewards that train later models
    rewards, features = learned - later, history.problem.features
    if rewards >= features:
        return ""
    return (
        f"The reward model has {rewards} reward{'s' * (rewards != 1)} to learn from, fewer than "
        f"its {features} features: the scores are rough."
    )


def _text(value: Any) -> str:
    return brief(value) if isinstance(value, float) else str(value)
