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
    TradeOff,
    cdf_radius,
    equal_probability,
    floor_round_2,
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
class Asked:
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
        ("M", "greatest reward density of any group", known.density),
        ("R", "subgaussian constant of the reward noise", known.noise),
        ("q_K", "mean candidates of the rarest group in a pool", known.candidates),
        ("q_min", "G × the rarest group's probability", known.balance),
    )
    for letter, meaning, estimate in estimates:
        if estimate is None:
            table.add_row(letter, meaning, "–", "", "places are not drawn alike")
            continue
        interval = f"{number(estimate.low)} to {number(estimate.high)}"
        table.add_row(
            letter,
            meaning,
            number(estimate.value),
            "exact" if estimate.exact else interval,
            estimate.how,
        )
    table.add_row("‖μ*‖₂", "norm of the true model", number(known.theta), "exact", "")
    return table


def bounds(known: Constants, asked: Asked) -> list[Callable[[float], Bound]]:
    """The bounds that speak of the problem, as functions of T."""
    options = {"delta": asked.delta, "regularization": asked.regularization}
    made: list[Callable[[float], Bound]] = []
    if known.own_places:
        made.append(partial(regret, known, **options))
    made.append(partial(regret_2, known, alpha=asked.alpha, **options))
    if known.balance is not None:
        made.append(partial(equal_probability, known, alpha=asked.alpha, **options))
    return made


def bounds_table(known: Constants, asked: Asked) -> Table:
    """The bounds on the fair pseudo-regret at T, term by term."""
    made = bounds(known, asked)
    at = [bound(asked.rounds) for bound in made]
    title = (
        f"Bounds on R_F(T), T = {number(asked.rounds)}, with probability ≥ "
        f"{number(1 - asked.delta)} (λ = {number(asked.regularization)})"
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
        ends = [bounds(known.at(worst=worst), asked) for worst in (False, True)]
        texts = [
            f"{number(low(asked.rounds).total)} to {number(high(asked.rounds).total)}"
            for low, high in zip(*ends, strict=True)
        ]
        table.add_row("sum at the constants' interval ends", *texts)
    table.add_row("below T from T =", *(_first(useful_from(bound)) for bound in made), style="bold")
    return table


def lemmas_table(known: Constants, asked: Asked) -> Table:
    """How close ridge and the empirical CDFs are, at some rounds."""
    counted = 1.0 if not known.random else asked.alpha * known.candidates.value
    label = "lm:dwk" if known.own_places else "lm:dwk_2"
    missed = asked.delta * (2 if known.random else 1)  # t_N of lm:chernoff too
    received = received_round(known, asked.rounds, asked.delta, asked.alpha)
    table = Table(
        title="Closeness of the estimates, for all t up to T at once, with a probability",
        title_justify="left",
    )
    table.add_column("round t", justify="right")
    table.add_column(
        f"lm:boundmu, ≥ {number(1 - asked.delta / 4)}:\n‖μ* − μ_t̃‖ in the norm of V ≤",
        justify="right",
    )
    table.add_column(f"{label}, ≥ {number(1 - missed)}:\nsup |F̂ − F| ≤", justify="right")
    for t in _rounds(asked.rounds):
        radius = ridge_radius(known, (t - 1) // 2, asked.delta, asked.regularization)
        cdf = cdf_radius(t, max(asked.rounds, t), known.groups, asked.delta, counted)
        table.add_row(number(t), number(radius), number(cdf) if t >= received else "–")
    return table


def floor_table(known: Constants, asked: Asked) -> Table:
    """From which round on every place is picked with some probability."""
    counted = 1.0 if not known.random else asked.alpha * known.candidates.value
    label = "prop:patlowerbound" if known.own_places else "prop:patlowerbound_2"
    missed = asked.delta * (1.25 if known.random else 0.25)  # t_N of lm:chernoff too
    table = Table(
        title=f"P(a_t = a | the past) ≥ c/K, with probability ≥ {number(1 - missed)} ({label})",
        title_justify="left",
    )
    for header in ("c", "c/K", "from round"):
        table.add_column(header, justify="right")
    received = received_round(known, asked.rounds, asked.delta, asked.alpha)
    for share in SHARES:
        first = floor_round_2(share, known.places, known.groups, asked.delta, counted)
        table.add_row(
            number(share), number(share / known.places), number(math.ceil(max(first, received)))
        )
    if asked.rounds >= received:
        at = probability_floor(asked.rounds, known.places, known.groups, asked.delta, counted)
        table.add_row(number(at * known.places), number(at), f"{number(asked.rounds)} (T)")
    return table


def trade_off_table(found: TradeOff, known: Constants, names: Sequence[str]) -> Table:
    """What the fair optimum loses in reward, where there are two groups."""
    title = f"Fairness against reward, groups {' and '.join(names)} (thm:linreg_opt)"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    error = f" ± {number(found.error)}" if found.error else ""
    lines = {
        "ε": number(found.epsilon),
        "p(ε): how often GMF loses more than ε": number(found.share) + error,
        "ε·p(ε): below GMF's standard regret a round": number(found.rate),
        "GMF's standard regret a round, the integral of p": number(found.mean_loss),
        "regret of T rounds is at least T·εp/2 = T ×": number(found.rate / 2),
        "… with probability at least εp/(4L‖μ*‖)": number(
            found.chance(known.norm.value, known.theta)
        ),
        "beyond this loss p(ε) = 0": number(found.greatest_loss),
    }
    for line, value in lines.items():
        table.add_row(line, value)
    return table


def remarks(known: Constants, asked: Asked) -> list[str]:
    """What a reader of the tables should not miss."""
    silent: dict[str, list[str]] = {}
    for bound in bounds(known, asked):
        at, first = bound(asked.rounds), useful_from(bound)
        if at.total >= asked.rounds:
            beyond = "at no T below 1e30" if first is None else f"only from T = {_first(first)} on"
            silent.setdefault(beyond, []).append(at.label)
    said = [
        f"At T = {number(asked.rounds)} nothing follows from {' and '.join(labels)}: no policy's "
        f"fair pseudo-regret exceeds T, and the bound is below T {beyond}."
        for beyond, labels in silent.items()
    ]
    if not known.own_places:
        said.append(
            "th:regret, lm:dwk and thm:linreg_opt take a place for each group, which this problem "
            "has not."
        )
    elif known.groups != 2:
        said.append(f"thm:linreg_opt speaks of two groups; here G = {known.groups}.")
    return [*said, *(f"Caveat: {caveat}." for caveat in known.caveats)]


def _first(found: int | None) -> str:
    return "beyond 1e30" if found is None else number(float(found))


def _rounds(last: float) -> list[int]:
    """Powers of ten from 10 on, and T."""
    rounds = [10**power for power in range(1, 30) if 10**power < last]
    return [*rounds[-5:], *([int(last)] if last >= 3 else [])]
