"""The tables that `fairbandit theory` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rich.table import Table

from fairbandit import theory
from fairbandit.run.table import make_table
from fairbandit.theory.bounds import ALPHA, DELTA, REGULARIZATION


def number(value: float) -> str:
    """A number with few digits, for tables.

    >>> number(1234567.8), number(0.00012345), number(3.2e21), number(5000.0)
    ('1,234,568', '0.0001234', '3.2e+21', '5,000')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def measured(found: theory.Estimate) -> str:
    """An estimate with its standard error, where it has one.

    >>> measured(theory.Estimate(0.5, error=0.01)), measured(theory.Estimate(2.0))
    ('0.5 ± 0.01', '2')
    """
    return number(found.value) + (f" ± {found.error:.2g}" if found.error else "")


@dataclass(frozen=True)
class TheoryTables:
    """The tables of one problem, for one choice of the numbers in the theorems.

    Attributes:
        known: the constants of the problem.
        rounds: T.
        delta: δ.
        regularization: λ of the ridge.
        alpha: α.
    """

    known: theory.Constants
    rounds: float
    delta: float = DELTA
    regularization: float = REGULARIZATION
    alpha: float = ALPHA

    @property
    def theorem(self) -> str:
        """The regret theorem that speaks of the problem."""
        return "th:regret" if self.known.own_places else "th:regret_2"

    @property
    def has_trade_off(self) -> bool:
        """Whether `thm:linreg_opt` applies: two groups, each with its own place and a density."""
        known = self.known
        return known.own_places and known.groups == 2 and math.isfinite(known.density.value)

    def bound(self, rounds: float, *, repaired: bool) -> theory.Bound:
        """The bound of `theorem` at some T."""
        given = self.known, rounds, self.delta, self.regularization
        if self.known.own_places:
            return theory.regret(*given, repaired=repaired)
        return theory.regret_2(*given, self.alpha, repaired=repaired)

    def constants(self, name: str) -> Table:
        """The constants of the problem, and how they were found.

        Args:
            name: the environment's.
        """
        known, exactly = self.known, theory.Estimate
        rows = [
            ("K", "places", exactly(known.places)),
            ("G", "groups", exactly(known.groups)),
            ("d", "features", exactly(known.features)),
            ("x_max", "greatest norm of a context", known.norm),
            ("λ⁺_min(Σ)", "least positive eigenvalue, mean over groups", known.eigenvalue),
            ("λ̄", "the same, mean over places", known.place_eigenvalue),
            ("M", "greatest reward density of a group", known.density),
            ("R", "subgaussian constant of the noise", known.noise),
            ("q_K", "candidates of the rarest group in a pool", known.candidates),
            ("‖μ*‖₂", "norm of the true model", exactly(known.theta)),
        ]
        if known.own_places:
            del rows[5]  # it is λ⁺_min(Σ)
        cells = [
            (letter, number(found.value), "; ".join(filter(None, (meaning, found.how))))
            for letter, meaning, found in rows
        ]
        title = f"Constants of this instance ({name})"
        return make_table(
            ("", "value", "what it is; how it is known"), cells, right=["value"], title=title
        )

    def bounds(self) -> Table:
        """The paper's regret theorem and the repaired one, term by term."""
        paper, repaired = (self.bound(self.rounds, repaired=mended) for mended in (False, True))
        first = [
            theory.useful_from(partial(self.bound, repaired=mended)) for mended in (False, True)
        ]
        share, gap = ("", "lm:eiguen") if self.known.own_places else ("q̄", "eq:patboundused")
        terms = {
            "proof": (f"has a gap: {gap}", "complete"),
            "λ_min(Ŝ) grows a round by": (
                f"{share}λ⁺_min(Σ)/4 = {number(paper.growth / 4)}",
                f"{share}λ'/4 = {number(repaired.growth / 4)}",
            ),
            "confidence set of μ*": (number(paper.confidence), number(repaired.confidence)),
            "regularisation": (number(paper.shrinkage), number(repaired.shrinkage)),
            "empirical CDFs": (number(paper.ranks), number(repaired.ranks)),
            "warm-up": (number(paper.warm_up), number(repaired.warm_up)),
            "R_F(T) is at most the sum": (number(paper.total), number(repaired.total)),
            "which is below T from T =": tuple(
                "beyond 1e30" if at is None else number(at) for at in first
            ),
        }
        title = (
            f"Fair regret of Fair-Greedy, T = {number(self.rounds)}, "
            f"with probability ≥ {number(1 - self.delta)}"
        )
        headers = ("", f"the paper's {self.theorem}", "repaired")
        rows = ((term, *cells) for term, cells in terms.items())
        return make_table(headers, rows, right=headers[1:], title=title)

    def instance(self, kappas: Sequence[float], found: Sequence[theory.Estimate]) -> Table:
        """λ_κ, and what the regret theorem's first two terms are with it.

        Args:
            kappas: κ.
            found: λ_κ of each.
        """
        paper = self.bound(self.rounds, repaired=False).growth
        delta = self.delta / 2 if self.known.random else self.delta
        rows = []
        for kappa, moment in zip(kappas, found, strict=True):
            growth = 2 * moment.value
            terms = theory.learning_terms(
                self.known, self.rounds, growth, delta, self.regularization
            )
            follows = number(sum(terms)) if growth else "nothing follows"
            rows.append((number(kappa), measured(moment), number(growth / paper), follows))
        share = "" if self.known.own_places else "q̄"
        headers = ("κ", "λ_κ ± std. error", f"2λ_κ ÷ {share}λ⁺_min(Σ)", "confidence + regular.")
        title = f"Second moment of picks on this instance ({found[0].how})"
        return make_table(headers, rows, right=headers, title=title)

    def trade_off(self, found: theory.TradeOff, names: Sequence[str], *, given: bool) -> Table:
        """The reward that the fair optimum loses and the fairness that the reward optimum loses.

        Args:
            found: the trade-off.
            names: of the two groups.
            given: whether ε was chosen by the user.
        """
        title = f"Fairness against reward, groups {' and '.join(names)} (thm:linreg_opt)"
        norm, theta, unfair = self.known.norm.value, self.known.theta, found.mean_unfairness
        rows = [
            ("ε" if given else "ε of the greatest ε·p(ε)", number(found.epsilon)),
            ("p(ε): how often the fair optimum loses more", measured(found.share)),
            ("its standard regret a round", measured(found.mean_loss)),
            ("its regret of T rounds is at least T·εp/2 = T ×", number(found.rate / 2)),
            ("… with probability at least εp/(4L‖μ*‖)", number(found.chance(norm, theta))),
            ("the reward optimum's fair regret a round", measured(unfair)),
        ]
        return make_table(("", "value"), rows, right=["value"], title=title, show_header=False)

    def remarks(self, picked: theory.Estimate) -> list[str]:
        """Remarks on what the tables mean and where they do not apply.

        Args:
            picked: λ₀.
        """
        known, share = self.known, "" if self.known.own_places else "q̄"
        half = self.bound(self.rounds, repaired=False).growth / 2
        delta = self.delta / 2 if known.random else self.delta
        floor = theory.repaired_floor(known, self.rounds, delta, self.alpha)
        beside = "less than that" if picked.value < half else "no less"
        said = [
            "The gap: the paper takes the second moment of a picked context to be that of any "
            f"context of its group, and so at least {share}λ⁺_min(Σ)/2 = {number(half)}. A pick is "
            f"selected for its rank: here the fair optimum's has λ₀ = {measured(picked)}, "
            f"{beside}; on some problems it has far less. This refutes the proof, not the theorem.",
            f"Repaired: a pick's second moment is at least {share}λ'/2 = {number(floor.moment)} "
            f"after s = {number(floor.lost)} rounds, on any problem with these constants, and "
            f"λ_min(Ŝ) ≥ {share}λ'/4·(t̃ − s) from t̃ = {number(math.ceil(floor.start))} on."
            if math.isfinite(floor.start)
            else "Repaired: λ' is 0 in floating point, so nothing follows for this problem.",
            "This instance: once all estimated ranks are within κ of the true ones, a pick's "
            "second moment is at least λ_κ, and 2λ_κ takes the place of "
            f"{share}λ'. When that is depends on the run; those first rounds are not in the table.",
        ]
        if known.own_places:
            picks = number(self.rounds / known.places)
            said.append(
                f"Parity: Fair-Greedy picks each group with probability 1/K in every round (lemma "
                f"DGP), so T/K = {picks} times on average; fairbandit parity tests it."
            )
        if not self.has_trade_off:
            said.append("thm:linreg_opt takes two groups with a place each and a reward density.")
        return [*said, *(f"Caveat: {caveat}." for caveat in known.caveats)]
