"""The tables that `fairbandit theory` prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.table import Table

from fairbandit.theory import (
    Bound,
    Constants,
    Estimate,
    Growth,
    TradeOff,
    cdf_radius,
    cdf_slope,
    equal_probability,
    error_bound,
    expected_picks,
    floor_round_2,
    growth,
    instant_regret,
    picked_moment,
    probability_floor,
    received_round,
    regret,
    regret_2,
    ridge_radius,
    useful_from,
)
from fairbandit.theory.lemmas import ALPHA, DELTA, REGULARIZATION

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The c of the probability floor c/K."""


@dataclass(frozen=True)
class BoundSettings:
    """What the bounds are computed at.

    Attributes:
        rounds: T.
        delta: δ.
        regularization: λ.
        alpha: α.
        epsilon: ε; None for the one of greatest ε·p(ε).
    """

    rounds: float
    delta: float = DELTA
    regularization: float = REGULARIZATION
    alpha: float = ALPHA
    epsilon: float | None = None


def number(value: float, digits: int = 4) -> str:
    """A number for people.

    >>> number(1234567.8), number(0.00012345), number(3.2e21), number(5000.0)
    ('1,234,568', '0.0001234', '3.2e+21', '5,000')
    """
    if value == 0 or 1e-4 <= abs(value) < 1000:
        return f"{value:.{digits}g}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.{digits}g}"


def constants_table(name: str, known: Constants) -> Table:
    """The problem's constants, where they come from, and how far off they may be."""
    table = Table(title=f"Constants of {name}", title_justify="left")
    for header in ("", "meaning", "value", "95 % interval", "how"):
        table.add_column(header, justify="right" if header == "value" else "left")
    sizes = (
        ("K", "places", known.places),
        ("G", "groups", known.groups),
        ("d", "features", known.features),
    )
    for letter, meaning, size in sizes:
        table.add_row(letter, meaning, str(size), "exact", "")
    estimates: tuple[tuple[str, str, Estimate | None], ...] = (
        ("L", "greatest norm of a context", known.norm),
        ("λ⁺_min(Σ)", "least nonzero eigenvalue of the mean second moment", known.eigenvalue),
        ("M", "greatest reward density of any group, F's slope (lm:cdfbound)", known.density),
        ("2ML", "sup |F − F_μ| ≤ 2ML·‖μ* − μ‖₂ (lm:cdfbound)", _slope(known)),
        ("R", "subgaussian constant of the reward noise", known.noise),
        ("q_K", "mean candidates of the rarest group in a pool", known.candidates),
        ("q_min", "G × the rarest group's probability", known.balance),
    )
    for letter, meaning, estimate in estimates:
        if estimate is None:
            table.add_row(letter, meaning, "–", "", "places are not drawn alike")
            continue
        table.add_row(letter, meaning, number(estimate.value), _interval(estimate), estimate.how)
    table.add_row("‖μ*‖₂", "norm of the true model", number(known.theta), "exact", "")
    return table


def _interval(estimate: Estimate) -> str:
    if estimate.lower_bound:
        return "not below the value"
    if estimate.exact:
        return "exact"
    return f"{number(estimate.low)} to {number(estimate.high)}"


def _slope(known: Constants) -> Estimate:
    low, high = (cdf_slope(known.at(worst=worst)) for worst in (False, True))
    bound = known.norm.lower_bound
    return Estimate(cdf_slope(known), low, high, "of M and L", lower_bound=bound and low == high)


def bounds(known: Constants, settings: BoundSettings) -> list[Callable[[float], Bound]]:
    """The bounds that speak of the problem, as functions of T."""
    options = {"delta": settings.delta, "regularization": settings.regularization}
    made: list[Callable[[float], Bound]] = []
    if known.own_places:
        made.append(partial(regret, known, **options))
    made.append(partial(regret_2, known, alpha=settings.alpha, **options))
    if known.balance is not None:
        made.append(partial(equal_probability, known, alpha=settings.alpha, **options))
    return made


def bounds_table(known: Constants, settings: BoundSettings) -> Table:
    """The bounds on the fair pseudo-regret at T, term by term."""
    made = bounds(known, settings)
    at = [bound(settings.rounds) for bound in made]
    title = (
        f"Bounds on R_F(T), T = {number(settings.rounds)}, with probability ≥ "
        f"{number(1 - settings.delta)} (λ = {number(settings.regularization)})"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("term")
    for bound in at:
        table.add_column(bound.label, justify="right")
    rows = {
        "confidence set of μ*": [bound.confidence for bound in at],
        "regularisation": [bound.shrinkage for bound in at],
        "empirical CDFs": [bound.ranks for bound in at],
        "warm-up τ = 4·max(τ₁, τ₂, τ₃) + 3": [bound.warm_up for bound in at],
        "   τ₁: every group is picked": [bound.tau_1 for bound in at],
        "   τ₂: Σ is known": [bound.tau_2 for bound in at],
        "   τ₃: every group was received": [bound.tau_3 for bound in at],
        "sum": [bound.total for bound in at],
        "sum ÷ T (R_F(T) ≤ T anyway)": [bound.total / bound.rounds for bound in at],
    }
    for term, values in rows.items():
        style = "bold" if term == "sum" else None
        table.add_row(term, *map(number, values), style=style)
    if not known.exact:
        ends = [bounds(known.at(worst=worst), settings) for worst in (False, True)]
        texts = [
            f"{number(low(settings.rounds).total)} to {number(high(settings.rounds).total)}"
            for low, high in zip(*ends, strict=True)
        ]
        table.add_row("sum at the constants' interval ends", *texts)
    table.add_row("below T from T =", *(_first(useful_from(bound)) for bound in made), style="bold")
    table.add_section()
    corrected = {
        "corrected τ (t_N, all t at once, λ⁺)": [bound.corrected_warm_up for bound in at],
        "corrected sum": [bound.corrected_total for bound in at],
    }
    for term, values in corrected.items():
        table.add_row(term, *map(number, values))
    table.add_row(
        "corrected: below T from T =",
        *(_first(useful_from(bound, corrected=True)) for bound in made),
    )
    return table


def closeness_table(known: Constants, settings: BoundSettings) -> Table:
    """How close ridge and the empirical CDFs are, at some rounds."""
    label = "lm:dwk" if known.own_places else "lm:dwk_2"
    received = received_round(
        known, settings.rounds, settings.delta, settings.alpha, corrected=True
    )
    table = Table(
        title="Closeness of the estimates, for all t up to T at once, with a probability",
        title_justify="left",
    )
    table.add_column("round t", justify="right")
    table.add_column(
        f"lm:boundmu, ≥ {number(1 - settings.delta / 4)}:\n‖μ* − μ_t̃‖ in the norm of V ≤",
        justify="right",
    )
    table.add_column(
        f"{label}, ≥ {_probability(known, settings, 1)}:\nsup |F̂ − F| ≤", justify="right"
    )
    counted = known.counted(settings.alpha)
    for t in _rounds(settings.rounds):
        radius = ridge_radius(known, (t - 1) // 2, settings.delta, settings.regularization)
        cdf = cdf_radius(t, max(settings.rounds, t), known.groups, settings.delta, counted)
        table.add_row(number(t), number(radius), number(cdf) if t >= received else "–")
    return table


@dataclass(frozen=True)
class _Lemma:
    """A row of the lemmas' table.

    Attributes:
        label: the lemma's.
        says: the inequality.
        missed: its probability falls short of 1 by so many δ, S_T not counted.
        first: from which round on it holds, as stated and corrected.
        value: its right side at a round, as stated and corrected.
    """

    label: str
    says: str
    missed: float
    first: tuple[float, float]
    value: tuple[Callable[[float], float], Callable[[float], float]]


def lemmas_table(known: Constants, settings: BoundSettings) -> Table:
    """The lemmas between the constants and the bounds, as stated and corrected.

    Right sides are at T, and at twice the first round, where T is taken to be no less. A first
    round beyond T says how large T must be.
    """
    table = Table(
        title=f"Lemmas of the proofs, for all t up to T = {number(settings.rounds)} at once",
        title_justify="left",
    )
    for header, justify in (
        ("", "left"),
        ("statement", "left"),
        ("probability ≥", "right"),
        ("as stated:\nfrom round", "right"),
        ("right side at\ntwice that", "right"),
        ("corrected:\nfrom round", "right"),
        ("right side at\ntwice that", "right"),
        ("right side\nat T", "right"),
    ):
        table.add_column(header, justify="right" if justify == "right" else "left")
    for lemma in _lemmas(known, settings):
        cells = [lemma.label, lemma.says, _probability(known, settings, lemma.missed)]
        for first, value in zip(lemma.first, lemma.value, strict=True):
            at = _ceiling(first)
            cells += [number(at), number(value(2 * at)) if math.isfinite(at) else "–"]
        first, value = lemma.first[1], lemma.value[1]
        cells.append(number(value(settings.rounds)) if settings.rounds >= first else "–")
        table.add_row(*cells)
    return table


def _lemmas(known: Constants, settings: BoundSettings) -> list[_Lemma]:
    """Those of `lemmas_table`, in the order of the proofs."""
    rounds, delta, alpha = settings.rounds, settings.delta, settings.alpha
    grown = [growth(known, rounds, delta, alpha, corrected=fixed) for fixed in (False, True)]
    t_n = [received_round(known, rounds, delta, alpha, corrected=fixed) for fixed in (False, True)]
    end = "" if known.own_places else "_2"

    def window(t: float) -> float:
        return known.counted(alpha) * (t - 1 - (t - 1) // 2)

    def norms(t: float) -> float:
        return error_bound(known, t, delta, settings.regularization)

    def regret_of(t: float) -> float:
        return instant_regret(known, t, max(rounds, t), norms(t), delta, alpha)

    def context(of: Growth) -> Callable[[float], float]:
        return lambda t: of.context_norm(t, known.norm.value)

    stated, fixed = grown
    first, half = (stated.first, fixed.first), (stated.half, fixed.half)
    lemmas = [
        _Lemma("lm:eiguen", "λ_min(Ŝ_t̃) ≥", 0.5, first, (stated.eigenvalue, fixed.eigenvalue)),
        _Lemma(
            "lm:boundx", "‖x‖ in the norm of V⁻¹ ≤", 0.5, first, (context(stated), context(fixed))
        ),
        _Lemma("lm:muxbound", "‖μ* − μ_t̃‖ in V × ‖x‖ in V⁻¹ ≤", 0.75, half, (norms, norms)),
        _Lemma(
            f"lm:instantbound{end}",
            "fair regret of round t, with lm:muxbound ≤",
            1.0,
            half,
            (regret_of, regret_of),
        ),
    ]
    if known.random:
        received = _Lemma(
            "lm:chernoff",
            "candidates N_{t,i} of each group ≥",
            0.0,
            (t_n[0], t_n[1]),
            (window, window),
        )
        lemmas.insert(0, received)
    return lemmas


def floor_table(known: Constants, settings: BoundSettings) -> Table:
    """From which round on every place is picked with some probability."""
    label = "prop:patlowerbound" if known.own_places else "prop:patlowerbound_2"
    table = Table(
        title=f"P(a_t = a | the past) ≥ c/K, with probability ≥ "
        f"{_probability(known, settings, 0.25)} ({label})",
        title_justify="left",
    )
    for header in ("c", "c/K", "eq:patboundused: λ⁺_min(E[xxᵀ | past]) ≥", "from round"):
        table.add_column(header, justify="right")
    counted = known.counted(settings.alpha)
    received = received_round(
        known, settings.rounds, settings.delta, settings.alpha, corrected=True
    )

    def row(share: float, since: str) -> None:
        moment = picked_moment(known, share)
        table.add_row(number(share), number(share / known.places), number(moment), since)

    for share in SHARES:
        first = floor_round_2(share, known.places, known.groups, settings.delta, counted)
        row(share, number(_ceiling(max(first, received))))
    if settings.rounds >= received:
        at = probability_floor(settings.rounds, known.places, known.groups, settings.delta, counted)
        row(at * known.places, f"{number(settings.rounds)} (T)")
    return table


def trade_off_table(
    found: TradeOff, known: Constants, names: Sequence[str], *, given: bool = False
) -> Table:
    """What the fair optimum loses in reward and the reward optimum in fairness, for two groups.

    Args:
        found: the trade-off.
        known: the constants.
        names: of the two groups.
        given: whether ε was given rather than found.
    """
    title = f"Fairness against reward, groups {' and '.join(names)} (thm:linreg_opt)"
    if any(found.errors):
        title += ", ± standard errors"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    share, loss, unfairness = (f" ± {number(error)}" if error else "" for error in found.errors)
    norm, theta = known.norm.value, known.theta
    lines = {
        "ε" if given else "ε of the greatest ε·p(ε), to 0.1 %": number(found.epsilon),
        "ε is at most 2L‖μ*‖, or else p(ε) = 0": number(2 * norm * theta),
        "upper bound on the loss of a round, beyond which p(ε) = 0": number(found.loss_upper_bound),
        "p(ε): how often GMF loses more than ε": number(found.share) + share,
        "ε·p(ε): at most GMF's standard regret a round": number(found.rate),
        "GMF's standard regret a round, the integral of p": number(found.mean_loss) + loss,
        "GMF's regret of T rounds is at least T·εp/2 = T ×": number(found.rate / 2),
        "… with probability at least εp/(4L‖μ*‖), itself at most ½": number(
            found.chance(norm, theta)
        ),
        "the reward optimum's fair regret a round, f": number(found.mean_unfairness) + unfairness,
        "its fair regret of T rounds is at least T·f/2 = T ×": number(found.mean_unfairness / 2),
        "… with probability at least f/2": number(found.mean_unfairness / 2),
    }
    for line, value in lines.items():
        table.add_row(line, value)
    return table


def remarks(known: Constants, settings: BoundSettings) -> list[str]:
    """What a reader of the tables should not miss."""
    silent: dict[str, list[str]] = {}
    for bound in bounds(known, settings):
        at, first = bound(settings.rounds), useful_from(bound)
        if at.total >= settings.rounds:
            beyond = "at no T below 1e30" if first is None else f"only from T = {_first(first)} on"
            silent.setdefault(beyond, []).append(at.label)
    said = [
        f"At T = {number(settings.rounds)} nothing follows from {' and '.join(labels)}: no "
        f"policy's fair pseudo-regret exceeds T, and the bound is below T {beyond}."
        for beyond, labels in silent.items()
    ]
    if known.own_places and math.isfinite(known.density.value):
        picks = number(expected_picks(known, settings.rounds))
        said.append(
            f"Fair-Greedy picks each group T/K = {picks} times in T rounds in expectation, and so "
            "do the fair optimum and uniform picks (remark on DGP)."
        )
    if known.own_places and known.groups != 2:
        said.append(f"thm:linreg_opt speaks of two groups; here G = {known.groups}.")
    elif known.own_places and not speaks_of_two(known):
        said.append("thm:linreg_opt takes rewards that have a density; see the caveat.")
    elif not known.own_places:
        said.append(
            "th:regret, lm:dwk and thm:linreg_opt take a place for each group, which this problem "
            "has not."
        )
    if known.random:
        stated, corrected = (
            number(
                received_round(
                    known, settings.rounds, settings.delta, settings.alpha, corrected=fixed
                )
            )
            for fixed in (False, True)
        )
        said.append(
            f"lm:chernoff counts a window of t rounds, yet it holds t/2 of them: t_N = {stated} is "
            f"too early. The tables use {corrected}, with 4 for the constant 2."
        )
    said.append(
        "Corrected figures mend t_N, the union over t and the factor of λ⁺. Like the stated ones "
        "they rest on eq:patboundused, whose proof takes a picked context to be distributed as any "
        "of its group: it fails where contexts that rank high are small."
    )
    return [*said, *(f"Caveat: {caveat}." for caveat in known.caveats)]


def speaks_of_two(known: Constants) -> bool:
    """Whether `thm:linreg_opt` applies: two groups, each with a place of its own and a density."""
    return known.own_places and known.groups == 2 and math.isfinite(known.density.value)


def _probability(known: Constants, settings: BoundSettings, missed: float) -> str:
    """1 − missed·δ, less the δ of S_T (`lm:chernoff`) where groups are random."""
    return number(max(0.0, 1 - settings.delta * (missed + known.random)))


def _ceiling(first: float) -> float:
    return float(math.ceil(first)) if math.isfinite(first) else first


def _first(found: int | None) -> str:
    return "beyond 1e30" if found is None else number(float(found))


def _rounds(last: float) -> list[int]:
    """Powers of ten from 10 on, and T."""
    rounds = [10**power for power in range(1, 30) if 10**power < last]
    return [*rounds[-5:], *([int(last)] if last >= 3 else [])]
