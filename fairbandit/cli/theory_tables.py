"""The tables that `fairbandit theory` prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.table import Table

from fairbandit import theory
from fairbandit.run.table import make_table
from fairbandit.theory.lemmas import ALPHA, DELTA, REGULARIZATION

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The c of the probability floor c/K."""

_ENDS, _INFORMATIVE = "sum at the constants' interval ends", "below T from T ="
_OfRound = Callable[[float], float]
_BoundOfT = Callable[[float], theory.Bound]


def number(value: float) -> str:
    """A number with few digits, for tables.

    >>> number(1234567.8), number(0.00012345), number(3.2e21), number(5000.0)
    ('1,234,568', '0.0001234', '3.2e+21', '5,000')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


@dataclass(frozen=True)
class TheoryTables:
    """The tables of one problem, for one choice of the numbers in the paper's statements.

    Attributes:
        known: the constants of the problem.
        rounds: T.
        delta: δ.
        regularization: λ.
        alpha: α.
        epsilon: ε; None for the one of greatest ε·p(ε).
    """

    known: theory.Constants
    rounds: float
    delta: float = DELTA
    regularization: float = REGULARIZATION
    alpha: float = ALPHA
    epsilon: float | None = None

    @property
    def has_trade_off(self) -> bool:
        """Whether `thm:linreg_opt` applies: two groups, each with its own place and a density."""
        known = self.known
        return known.own_places and known.groups == 2 and math.isfinite(known.density.value)

    def constants(self, name: str) -> Table:
        """The constants of the problem, with their intervals and how they were found.

        Args:
            name: the environment's.
        """
        known, exactly = self.known, theory.Estimate.exactly
        rows: list[tuple[str, str, theory.Estimate | None]] = [
            ("K", "places", exactly(known.places, "")),
            ("G", "groups", exactly(known.groups, "")),
            ("d", "features", exactly(known.features, "")),
            ("L", "greatest norm of a context", known.norm),
            ("λ⁺_min(Σ)", "least nonzero eigenvalue of the mean second moment", known.eigenvalue),
            ("M", "greatest reward density of any group, F's slope (lm:cdfbound)", known.density),
            ("2ML", "sup |F − F_μ| ≤ 2ML·‖μ* − μ‖₂ (lm:cdfbound)", self._slope()),
            ("R", "subgaussian constant of the reward noise", known.noise),
            ("q_K", "mean candidates of the rarest group in a pool", known.candidates),
            ("q_min", "G × the rarest group's probability", known.balance),
            ("‖μ*‖₂", "norm of the true model", exactly(known.theta, "")),
        ]
        cells = [(letter, meaning, *_estimated(found)) for letter, meaning, found in rows]
        headers = ("", "meaning", "value", "95 % interval", "how")
        return make_table(headers, cells, right=["value"], title=f"Constants of {name}")

    def _slope(self) -> theory.Estimate:
        low, high = (theory.cdf_slope(self.known.at(worst=worst)) for worst in (False, True))
        unbounded = self.known.norm.lower_bound and low == high
        return theory.Estimate(
            theory.cdf_slope(self.known), low, high, "of M and L", lower_bound=unbounded
        )

    def bounds(self) -> Table:
        """The bounds on the fair pseudo-regret at T, term by term."""
        low, high = (replace(self, known=self.known.at(worst=worst)) for worst in (False, True))
        each = zip(self._bounds(), low._bounds(), high._bounds(), strict=True)
        columns = [self._terms(*three) for three in each]
        labels = [bound(self.rounds).label for bound in self._bounds()]
        title = (
            f"Bounds on R_F(T), T = {number(self.rounds)}, with probability ≥ "
            f"{number(1 - self.delta)} (λ = {number(self.regularization)})"
        )
        table = make_table(["term", *labels], (), right=labels, title=title)
        for term in columns[0]:
            told = term in ("sum", _INFORMATIVE)
            cells = [column[term] for column in columns]
            table.add_row(
                term, *cells, style="bold" if told else None, end_section=term == _INFORMATIVE
            )
        return table

    def _bounds(self) -> list[_BoundOfT]:
        """The bounds that apply to the problem, as functions of T."""
        options = {"delta": self.delta, "regularization": self.regularization}
        made: list[_BoundOfT] = []
        if self.known.own_places:
            made.append(partial(theory.regret, self.known, **options))
        made.append(partial(theory.regret_2, self.known, alpha=self.alpha, **options))
        if self.known.balance is not None:
            made.append(partial(theory.equal_probability, self.known, alpha=self.alpha, **options))
        return made

    def _terms(self, bound: _BoundOfT, low: _BoundOfT, high: _BoundOfT) -> dict[str, str]:
        """A bound's column, with its sums for the constants at the ends of their intervals."""
        at, ends = bound(self.rounds), [number(end(self.rounds).total) for end in (low, high)]
        terms = {
            "confidence set of μ*": number(at.confidence),
            "regularisation": number(at.shrinkage),
            "empirical CDFs": number(at.ranks),
            "warm-up τ = 4·max(τ₁, τ₂, τ₃) + 3": number(at.warm_up),
            "   τ₁: every group is picked": number(at.tau_1),
            "   τ₂: Σ is known": number(at.tau_2),
            "   τ₃: every group was received": number(at.tau_3),
            "sum": number(at.total),
            "sum ÷ T (R_F(T) ≤ T anyway)": number(at.total / at.rounds),
            _ENDS: " to ".join(ends),
            _INFORMATIVE: _first(theory.useful_from(bound)),
            "corrected τ (t_N, all t at once, λ⁺)": number(at.corrected_warm_up),
            "corrected sum": number(at.corrected_total),
            "corrected: below T from T =": _first(theory.useful_from(bound, corrected=True)),
        }
        if self.known.exact:
            del terms[_ENDS]
        return terms

    def closeness(self) -> Table:
        """The errors of the ridge estimate and of the empirical CDFs at some rounds."""
        label = "lm:dwk" if self.known.own_places else "lm:dwk_2"
        headers = (
            "round t",
            f"lm:boundmu, ≥ {number(1 - self.delta / 4)}:\n‖μ* − μ_t̃‖ in the norm of V ≤",
            f"{label}, ≥ {self._probability(1)}:\nsup |F̂ − F| ≤",
        )
        rows = []
        for t in _powers(self.rounds):
            radius = theory.ridge_radius(self.known, (t - 1) // 2, self.delta, self.regularization)
            groups, received = self.known.groups, t >= self._received()
            cdf = theory.cdf_radius(t, self.rounds, groups, self.delta, self._counted)
            rows.append((number(t), number(radius), number(cdf) if received else "–"))
        title = "Closeness of the estimates, for all t up to T at once, with a probability"
        return make_table(headers, rows, right=headers, title=title)

    def lemmas(self) -> Table:
        """The lemmas between the constants and the bounds, as stated and corrected.

        The right sides are computed at T, and at twice the first round as if T were that large. A
        first round beyond T shows how large T must be.
        """
        headers = (
            *("", "statement", "probability ≥"),
            *("as stated:\nfrom round", "right side at\ntwice that"),
            *("corrected:\nfrom round", "right side at\ntwice that"),
            "right side\nat T",
        )
        title = f"Lemmas of the proofs, for all t up to T = {number(self.rounds)} at once"
        return make_table(headers, self._lemmas(), right=headers[2:], title=title)

    def _lemmas(self) -> list[list[str]]:
        """The rows of `lemmas`, in the order of the proofs."""
        known, rounds, delta, alpha = self.known, self.rounds, self.delta, self.alpha
        stated, fixed = (
            theory.growth(known, rounds, delta, alpha, corrected=corrected)
            for corrected in (False, True)
        )
        first, half = (stated.first, fixed.first), (stated.half, fixed.half)

        def row(
            label: str, says: str, missed: float, first: tuple[float, float], *values: _OfRound
        ) -> list[str]:
            """The first rounds and the right sides of a lemma come as stated and as corrected."""
            cells = [label, says, self._probability(missed)]
            for start, value in zip(map(_ceiling, first), values, strict=True):
                cells += [number(start), number(value(2 * start)) if start < math.inf else "–"]
            return [*cells, number(values[1](rounds)) if rounds >= first[1] else "–"]

        def window(t: float) -> float:
            return self._counted * (t - 1 - (t - 1) // 2)

        def error(t: float) -> float:
            return theory.error_bound(known, t, delta, self.regularization)

        def fair_regret(t: float) -> float:
            return theory.instant_regret(known, t, max(rounds, t), error(t), delta, alpha)

        norms = (partial(of.context_norm, norm=known.norm.value) for of in (stated, fixed))
        received = (self._received(corrected=False), self._received())
        instant = "lm:instantbound" if known.own_places else "lm:instantbound_2"
        told = "fair regret of round t, with lm:muxbound ≤"
        rows = [
            row("lm:eiguen", "λ_min(Ŝ_t̃) ≥", 0.5, first, stated.eigenvalue, fixed.eigenvalue),
            row("lm:boundx", "‖x‖ in the norm of V⁻¹ ≤", 0.5, first, *norms),
            row("lm:muxbound", "‖μ* − μ_t̃‖ in V × ‖x‖ in V⁻¹ ≤", 0.75, half, error, error),
            row(instant, told, 1.0, half, fair_regret, fair_regret),
        ]
        if known.random:
            says = "candidates N_{t,i} of each group ≥"
            rows.insert(0, row("lm:chernoff", says, 0.0, received, window, window))
        return rows

    def floor(self) -> Table:
        """The rounds from which every place is picked with probability c/K or more."""
        places, groups = self.known.places, self.known.groups

        def row(share: float, first: str) -> list[str]:
            moment = theory.picked_moment(self.known, share)
            return [*map(number, (share, share / places, moment)), first]

        rows = []
        for share in SHARES:
            first = theory.floor_round_2(share, places, groups, self.delta, self._counted)
            rows.append(row(share, number(_ceiling(max(first, self._received())))))
        if self.rounds >= self._received():
            at = theory.probability_floor(self.rounds, places, groups, self.delta, self._counted)
            rows.append(row(at * places, f"{number(self.rounds)} (T)"))
        headers = ("c", "c/K", "eq:patboundused: λ⁺_min(E[xxᵀ | past]) ≥", "from round")
        label = "prop:patlowerbound" if self.known.own_places else "prop:patlowerbound_2"
        chance = self._probability(0.25)
        title = f"P(a_t = a | the past) ≥ c/K, with probability ≥ {chance} ({label})"
        return make_table(headers, rows, right=headers, title=title)

    def trade_off(self, found: theory.TradeOff, names: Sequence[str]) -> Table:
        """The reward that the fair optimum loses and the fairness that the reward optimum loses.

        Args:
            found: the trade-off at `epsilon`.
            names: of the two groups.
        """
        title = f"Fairness against reward, groups {' and '.join(names)} (thm:linreg_opt)"
        if any(found.errors):
            title += ", ± standard errors"
        share, loss, unfairness = (f" ± {number(error)}" if error else "" for error in found.errors)
        norm, theta = self.known.norm.value, self.known.theta
        chosen = "ε of the greatest ε·p(ε), to 0.1 %" if self.epsilon is None else "ε"
        lost, unfair = number(found.mean_loss) + loss, number(found.mean_unfairness) + unfairness
        half, bound = number(found.mean_unfairness / 2), number(found.loss_upper_bound)
        chance = number(found.chance(norm, theta))
        rows = [
            (chosen, number(found.epsilon)),
            ("ε is at most 2L‖μ*‖, or else p(ε) = 0", number(2 * norm * theta)),
            ("upper bound on the loss of a round, beyond which p(ε) = 0", bound),
            ("p(ε): how often GMF loses more than ε", number(found.share) + share),
            ("ε·p(ε): at most GMF's standard regret a round", number(found.rate)),
            ("GMF's standard regret a round, the integral of p", lost),
            ("GMF's regret of T rounds is at least T·εp/2 = T ×", number(found.rate / 2)),
            ("… with probability at least εp/(4L‖μ*‖), itself at most ½", chance),
            ("the reward optimum's fair regret a round, f", unfair),
            ("its fair regret of T rounds is at least T·f/2 = T ×", half),
            ("… with probability at least f/2", half),
        ]
        return make_table(("", "value"), rows, right=["value"], title=title, show_header=False)

    def remarks(self) -> list[str]:
        """Remarks on what the tables mean and where they do not apply."""
        known = self.known
        silent: dict[str, list[str]] = {}
        for bound in self._bounds():
            at, first = bound(self.rounds), theory.useful_from(bound)
            if at.total >= self.rounds:
                beyond = f"only from T = {number(first)} on" if first else "at no T below 1e30"
                silent.setdefault(beyond, []).append(at.label)
        said = [
            f"At T = {number(self.rounds)} nothing follows from {' and '.join(labels)}: no "
            f"policy's fair pseudo-regret exceeds T, and the bound is below T {beyond}."
            for beyond, labels in silent.items()
        ]
        if known.own_places and math.isfinite(known.density.value):
            picks = number(theory.expected_picks(known, self.rounds))
            said.append(
                f"Fair-Greedy picks each group T/K = {picks} times in T rounds in expectation, and "
                "so do the fair optimum and uniform picks (remark on DGP)."
            )
        if not known.own_places:
            said.append(
                "th:regret, lm:dwk and thm:linreg_opt take a place for each group, which this "
                "problem has not."
            )
        elif known.groups != 2:
            said.append(f"thm:linreg_opt speaks of two groups; here G = {known.groups}.")
        elif not self.has_trade_off:
            said.append("thm:linreg_opt takes rewards that have a density; see the caveat.")
        if known.random:
            stated, corrected = (number(self._received(corrected=c)) for c in (False, True))
            said.append(
                f"lm:chernoff counts a window of t rounds, yet it holds t/2 of them: t_N = "
                f"{stated} is too early. The tables use {corrected}, with 4 for the constant 2."
            )
        said.append(
            "Corrected figures mend t_N, the union over t and the factor of λ⁺. Like the stated "
            "ones they rest on eq:patboundused, whose proof takes a picked context to be "
            "distributed as any of its group: it fails where contexts that rank high are small."
        )
        return [*said, *(f"Caveat: {caveat}." for caveat in known.caveats)]

    def _received(self, *, corrected: bool = True) -> float:
        """t_N of `lm:chernoff`."""
        return theory.received_round(
            self.known, self.rounds, self.delta, self.alpha, corrected=corrected
        )

    @property
    def _counted(self) -> float:
        """αq_K of `lm:chernoff`."""
        return self.known.counted(self.alpha)

    def _probability(self, missed: float) -> str:
        """1 − missed·δ, minus the δ of S_T (`lm:chernoff`) where groups are random."""
        return number(max(0.0, 1 - self.delta * (missed + self.known.random)))


def _estimated(found: theory.Estimate | None) -> tuple[str, str, str]:
    """The value, the interval and the method of an estimate."""
    if found is None:
        return "–", "", "places are not drawn alike"
    interval = "exact" if found.exact else f"{number(found.low)} to {number(found.high)}"
    return number(found.value), "not below the value" if found.lower_bound else interval, found.how


def _ceiling(first: float) -> float:
    return float(math.ceil(first)) if math.isfinite(first) else first


def _first(found: int | None) -> str:
    return "beyond 1e30" if found is None else number(found)


def _powers(last: float) -> list[int]:
    """The largest five powers of ten below T, and T itself."""
    rounds = [10**power for power in range(1, 30) if 10**power < last]
    return [*rounds[-5:], *([int(last)] if last >= 3 else [])]
