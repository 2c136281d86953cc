"""The constants, the bounds and the trade-off of a problem as a table, with remarks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from fairbandit.environments import Environment
from fairbandit.errors import brief
from fairbandit.theory.bounds import (
    ALPHA,
    DELTA,
    REGULARIZATION,
    Bound,
    regret,
    repaired_floor,
    useful_from,
)
from fairbandit.theory.constants import (
    KAPPAS,
    Constant,
    Constants,
    constants,
    drawn_pools,
    pick_moments,
)

if TYPE_CHECKING:
    import pandas as pd


class _Row(NamedTuple):
    table: str
    quantity: str
    case: str
    value: float
    error: float = 0.0
    how: str = ""


def theory(
    environment: Environment,
    *,
    rounds: float | None = None,
    delta: float = DELTA,
    regularization: float = REGULARIZATION,
    alpha: float = ALPHA,
) -> pd.DataFrame:
    """Computes the constants of a problem and the bounds on the fair regret of Fair-Greedy.

    Args:
        environment: the simulation, a table or a census environment.
        rounds: T; None takes the environment's default.
        delta, regularization, alpha: δ, λ and α, as for `regret`.

    Returns:
        A row for each `quantity` of a `table`, and for each `case`, such as the paper's theorem and
        its repaired version: its `value`, its standard `error` (0 if it is not sampled), and in
        `how` its computation or its meaning. `attrs["notes"]` has remarks on the tables and their
        limits.

    Raises:
        FairbanditError: a number is out of range, or the constants are not known.

    >>> from fairbandit import build
    >>> table = theory(build({"name": "simulation"})).set_index(["quantity", "case"])
    >>> float(table["value"]["K", "value"])
    4.0
    """
    import pandas as pd

    problem = constants(environment)
    horizon = float(environment.rounds if rounds is None else rounds)
    options: dict[str, Any] = {"delta": delta, "regularization": regularization, "alpha": alpha}
    moments = dict(zip(KAPPAS, pick_moments(environment), strict=True))
    stated = regret(problem, horizon, **options, repaired=False)
    rows = [*_constants(problem), *_bounds(problem, horizon, options)]
    share = "" if problem.own_places else "q̄"
    title = f"Second moment of picks on this instance ({moments[0.0].how})"
    for kappa, moment in moments.items():
        ratio = 2 * moment.value / stated.growth
        terms = stated.confidence + stated.shrinkage
        name = f"κ = {brief(kappa)}"
        rows.append(_Row(title, name, "λ_κ", moment.value, moment.error))
        rows.append(_Row(title, name, f"2λ_κ ÷ {share}λ⁺_min(Σ)", ratio))
        total = terms / math.sqrt(ratio) if ratio else math.inf
        rows.append(_Row(title, name, "confidence + regular.", total))
    if has_trade_off(problem):
        rows += _trade_off(problem, environment)
    table = pd.DataFrame(rows)
    floor = repaired_floor(problem, horizon, problem.split(delta), alpha)
    table.attrs["notes"] = [
        *_of_picks(share, moments[0.0], stated.growth / 2, floor),
        _of_parity(problem, horizon),
        *([] if has_trade_off(problem) else [_NO_TRADE_OFF]),
        *(f"Caveat: {caveat}." for caveat in problem.caveats),
    ]
    return table


_NO_TRADE_OFF = "thm:linreg_opt assumes two groups with one place each and densities."


def has_trade_off(problem: Constants) -> bool:
    """Whether `thm:linreg_opt` applies: two groups with their own places, and a density."""
    return problem.own_places and problem.groups == 2 and math.isfinite(problem.density.value)


def _constants(problem: Constants) -> Iterator[_Row]:
    exact = Constant
    mean_over_places = [("λ̄", "the same, mean over places", problem.place_eigenvalue)]
    for letter, meaning, constant in [
        ("K", "places", exact(problem.places)),
        ("G", "groups", exact(problem.groups)),
        ("d", "features", exact(problem.features)),
        ("x_max", "greatest norm of a context", problem.norm),
        ("λ⁺_min(Σ)", "least positive eigenvalue, mean over groups", problem.eigenvalue),
        *(mean_over_places if not problem.own_places else []),
        ("M", "greatest reward density of a group", problem.density),
        ("R", "subgaussian constant of the noise", problem.noise),
        ("q_K", "candidates of the rarest group in a pool", problem.candidates),
        ("‖μ*‖₂", "norm of the true model", exact(problem.theta)),
    ]:
        how = f"{meaning}; {constant.how}".removesuffix("; ")
        yield _Row("Constants of this instance", letter, "value", constant.value, how=how)


def _bounds(problem: Constants, rounds: float, options: dict[str, Any]) -> Iterator[_Row]:
    names = "th:regret, whose proof has a gap: lm:eiguen"
    if not problem.own_places:
        names = "th:regret_2, whose proof has a gap: eq:patboundused"
    title = f"Fair regret of Fair-Greedy, T = {brief(rounds)}, "
    title += f"with probability ≥ {brief(1 - options['delta'])}"
    for case, repaired in ((f"the paper's {names}", False), ("repaired", True)):

        def bound_at(horizon: float, repaired: bool = repaired) -> Bound:
            return regret(problem, horizon, **options, repaired=repaired)

        bound = bound_at(rounds)
        first = useful_from(bound_at)
        for quantity, value in [
            ("λ_min(Ŝ) grows a round by", bound.growth / 4),
            ("confidence set of μ*", bound.confidence),
            ("regularisation", bound.shrinkage),
            ("empirical CDFs", bound.ranks),
            ("warm-up", bound.warm_up),
            ("R_F(T) is at most the sum", bound.total),
            ("the sum is below T from T =", math.inf if first is None else float(first)),
        ]:
            yield _Row(title, quantity, case, value)


def _trade_off(problem: Constants, environment: Environment) -> Iterator[_Row]:
    costs, groups = trade_off(environment), " and ".join(environment.group_names)
    chance = costs.chance(problem.norm.value, problem.theta)
    for quantity, estimate in [
        ("the ε with the greatest ε·p(ε)", Constant(costs.epsilon)),
        ("p(ε): how often the fair optimum loses more than ε", costs.share),
        ("its standard regret per round", costs.mean_loss),
        ("its regret over T rounds is at least T·εp/2 = T ×", Constant(costs.rate / 2)),
        ("… with probability at least εp/(4L‖μ*‖)", Constant(chance)),
        ("fair regret per round of the reward optimum", costs.mean_unfairness),
    ]:
        title = f"Fairness against reward, groups {groups} (thm:linreg_opt)"
        yield _Row(title, quantity, "value", estimate.value, estimate.error)


def _of_picks(share: str, picked: Constant, half: float, floor: Any) -> Iterator[str]:
    measured = brief(picked.value) + (f" ± {picked.error:.2g}" if picked.error else "")
    yield (
        "The gap: the paper assumes that picked contexts have the same second moment as all "
        f"contexts of their group, so at least {share}λ⁺_min(Σ)/2 = {brief(half)}. But picks "
        f"are selected by rank: the fair optimum's picks have λ₀ = {measured} here, "
        f"{'less than that' if picked.value < half else 'not less'}; on some problems far less. "
        "This refutes the proof, not the theorem."
    )
    yield (
        f"Repaired: a pick's second moment is at least {share}λ'/2 = {brief(floor.moment)} "
        f"after s = {brief(floor.lost)} rounds, on any problem with these constants, and "
        f"λ_min(Ŝ) ≥ {share}λ'/4·(t̃ − s) from t̃ = {brief(math.ceil(floor.start))} on."
        if math.isfinite(floor.start)
        else "Repaired: λ' is 0 in floating point, so nothing follows for this problem."
    )
    yield (
        "This instance: once all estimated ranks are within κ of the true ranks, a pick's "
        f"second moment is at least λ_κ, and 2λ_κ replaces {share}λ'. The first such round "
        "depends on the run, and the table leaves out the rounds before it."
    )


def _of_parity(problem: Constants, rounds: float) -> str:
    # pools with one candidate per group draw them independently, as assumption (iii) demands
    if not problem.own_places:
        return (
            "Parity is not proved here: lemma DGP assumes one candidate of each group in every "
            "pool, independent of the others (assumption iii)."
        )
    if problem.ties:
        return (
            "Parity is not proved here: lemma DGP assumes continuous rewards (assumption iv), "
            "and the true rewards of two random candidates of one group are equal with "
            f"probability up to {brief(problem.ties)}. Rare ties leave Fair-Greedy near parity."
        )
    return (
        "Parity: Fair-Greedy picks each group with probability 1/K in every round (lemma "
        f"DGP), so T/K = {brief(rounds / problem.places)} times on average."
    )


BLOCKS = 128  # the number of blocks of pools from which losses are estimated, 262,144 pools in all


@dataclass(frozen=True)
class TradeOff:
    """The regrets per round of the fair optimum and of the reward optimum, with standard errors.

    Attributes:
        epsilon: the ε that was given, or the ε with the greatest ε·p(ε).
        share: p(ε), the probability that the fair optimum loses more than ε of reward.
        mean_loss: the mean reward that the fair optimum loses; the integral of p.
        mean_unfairness: the mean rank that the reward optimum loses.
    """

    epsilon: float
    share: Constant
    mean_loss: Constant
    mean_unfairness: Constant

    @property
    def rate(self) -> float:
        """ε·p(ε), a lower bound on the mean loss per round."""
        return self.epsilon * self.share.value

    def chance(self, norm: float, theta: float) -> float:
        """εp/(4L‖μ*‖) ≤ ½, a lower bound on the probability of regret T·εp/2, for L and ‖μ*‖₂."""
        return self.rate / (4 * norm * theta) if self.rate else 0.0


def trade_off(environment: Environment, epsilon: float | None = None) -> TradeOff:
    """Estimates the reward that the fair optimum loses, and the rank that the reward optimum loses.

    The theorem is about two groups with one place each: with probability at least εp/(4L‖μ*‖) the
    fair optimum's standard regret over T rounds is at least T·εp/2, where
    p(ε) = ∫₀¹ max(F₁(F₂⁻¹(y) − ε) − y, 0) + max(y − F₁(F₂⁻¹(y) + ε), 0) dy is the probability that
    it loses more than ε in a round. Here p is estimated from 262,144 drawn pools. Tied maximisers
    are picked with equal probability.

    Args:
        environment: an environment whose pools have true ranks; it is bound to new streams.
        epsilon: ε, at least 0; None takes the ε with the greatest ε·p(ε).
    """
    parts = list[tuple[Tensor, ...]]()
    for pools in drawn_pools(environment, BLOCKS):
        merits = torch.stack([pools.expected, pools.ranks]).flatten(1, 2).cpu()
        merits = merits.where(pools.groups.flatten(0, 1).cpu() >= 0, -math.inf)
        greatest = merits.amax(2, keepdim=True)
        lost = (greatest - merits).nan_to_num(0.0, posinf=0.0)
        chosen = (merits == greatest).double()
        parts.append((*lost, *(chosen / chosen.sum(2, keepdim=True))))
    losses, unfair, best, fair = map(torch.cat, zip(*parts, strict=True))
    if epsilon is None:
        ordered = losses.flatten().sort(descending=True)
        tail = fair.flatten()[ordered.indices].cumsum(0) / len(losses)
        rates = ordered.values * tail  # ε·p(ε) for ε just below each loss
        at = int(rates.argmax())
        epsilon = math.nextafter(float(ordered.values[at]), 0) if float(rates[at]) > 0 else 0.0
    return TradeOff(
        epsilon=epsilon,
        share=_mean(((losses > epsilon) * fair).sum(1)),
        mean_loss=_mean((losses * fair).sum(1)),
        mean_unfairness=_mean((unfair * best).sum(1)),
    )


def _mean(values: Tensor) -> Constant:
    error = float(values.std()) / math.sqrt(len(values))
    return Constant(float(values.mean()), f"from {len(values):,} pools", error)
