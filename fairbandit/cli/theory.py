"""`fairbandit theory`: the paper's constants and bounds, computed for a problem, as tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from rich.table import Table

from fairbandit import registry
from fairbandit import theory as paper
from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError, brief, unknown
from fairbandit.runs.sheets import console, make_table
from fairbandit.theory.bounds import ALPHA, DELTA, REGULARIZATION
from fairbandit.theory.constants import KAPPAS

_HELP = """\
Computes for a problem the constants in the paper's theorem on Fair-Greedy, and the bound on its
fair regret. One step of the paper's proof is false, so the printed theorem and its repaired version
are shown side by side, and below them the constant of this instance, computed by Monte Carlo.
For two groups with one place each, it also prints the cost of fairness in reward.

The command does not play a policy, and all bounds are for one pick from each pool. Constants of the
simulation are in closed form; constants of a table and of the census are exact over the members.

words:
  environment=NAME             simulation, table, census_gender or census_ethnicity
  environment.KEY=VALUE        as for a run
  rounds=T                     default: the environment's own
  delta=0.05                   bounds hold with probability at least 1 - delta
  regularization=0.1           the ridge's λ
  alpha=0.5                    th:regret_2: the share of a group's expected candidates that the
                               bound relies on

Labels such as th:regret refer to the paper's source."""

_EXAMPLES = """\
examples:
  fairbandit theory environment=simulation
  fairbandit theory environment=simulation rounds=1000000 delta=0.01
  fairbandit theory environment=simulation environment.groups=2 'environment.theta=[2,1,1]'
  fairbandit theory environment=census_gender environment.root=data 'environment.states=[VT,WY]'"""

_TERMS = (
    "proof",
    "λ_min(Ŝ) grows a round by",
    "confidence set of μ*",
    "regularisation",
    "empirical CDFs",
    "warm-up",
    "R_F(T) is at most the sum",
    "the sum is below T from T =",
)


def theory(words: Sequence[str]) -> None:
    """Prints the constants and bounds of the paper for an environment."""
    parser = tool_parser("theory", _HELP, _EXAMPLES)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="see above")
    described, numbers = _parsed(parser.parse_args(words).words)
    torch.set_num_threads(1)
    environment: Environment = registry.create("environment", described)
    numbers = {"rounds": float(environment.rounds), **numbers}
    tables = _Tables(paper.constants(environment), **numbers)
    # every computation that can fail comes before the first output
    moments = dict(zip(KAPPAS, paper.pick_moments(environment), strict=True))
    shown: list[Table | str] = [
        tables.constants(f"Constants of this instance ({described['name']})"),
        tables.bounds(),
        tables.instance(moments),
    ]
    if tables.has_trade_off:
        groups = " and ".join(environment.group_names)
        title = f"Fairness against reward, groups {groups} (thm:linreg_opt)"
        shown.append(tables.trade_off(paper.trade_off(environment), title))
    screen = console()
    for part in (*shown, *tables.remarks(moments[0.0])):
        screen.print(part, highlight=False)


def _parsed(words: Sequence[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """Returns the description of the environment, and the numbers by name."""
    dotted = [re.sub("^environment=", "environment.name=", word) for word in words]
    given = read_parameters(dotted, "theory")
    described = {"name": "simulation", **given.pop("environment", {})}
    keys = ("rounds", "delta", "regularization", "alpha")
    for wrong in given.keys() - {*keys}:
        raise unknown("key", wrong, ["environment", "environment.KEY", *keys])
    try:
        return described, {key: float(value) for key, value in given.items()}
    except (TypeError, ValueError) as error:
        raise FairbanditError(f"fairbandit theory: not a number in {given}: {error}") from None


def _measured(estimate: paper.Constant) -> str:
    """Formats an estimate with its standard error, if it has one."""
    return brief(estimate.value) + (f" ± {estimate.error:.2g}" if estimate.error else "")


@dataclass(frozen=True)
class _Tables:
    """The tables of a problem, for one choice of T, δ, λ and α."""

    known: paper.Constants
    rounds: float
    delta: float = DELTA
    regularization: float = REGULARIZATION
    alpha: float = ALPHA

    @property
    def has_trade_off(self) -> bool:
        """Whether `thm:linreg_opt` applies: two groups with their own places, and a density."""
        known = self.known
        return known.own_places and known.groups == 2 and math.isfinite(known.density.value)

    @property
    def share(self) -> str:
        """The factor q̄ in formulas, or an empty text where q̄ is 1."""
        return "" if self.known.own_places else "q̄"

    def bound(self, rounds: float, *, repaired: bool) -> paper.Bound:
        given = self.known, rounds, self.delta, self.regularization, self.alpha
        return paper.regret(*given, repaired=repaired)

    def constants(self, title: str) -> Table:
        """Returns a table of the constants of the problem, with the way each was computed."""
        known, exact = self.known, paper.Constant
        mean_over_places = [("λ̄", "the same, mean over places", known.place_eigenvalue)]
        rows = [
            ("K", "places", exact(known.places)),
            ("G", "groups", exact(known.groups)),
            ("d", "features", exact(known.features)),
            ("x_max", "greatest norm of a context", known.norm),
            ("λ⁺_min(Σ)", "least positive eigenvalue, mean over groups", known.eigenvalue),
            *(mean_over_places if not known.own_places else []),
            ("M", "greatest reward density of a group", known.density),
            ("R", "subgaussian constant of the noise", known.noise),
            ("q_K", "candidates of the rarest group in a pool", known.candidates),
            ("‖μ*‖₂", "norm of the true model", exact(known.theta)),
        ]
        cells = [
            (letter, brief(constant.value), f"{meaning}; {constant.how}".removesuffix("; "))
            for letter, meaning, constant in rows
        ]
        headers = ("", "value", "meaning; source")
        return make_table(headers, cells, right=["value"], title=title)

    def bounds(self) -> Table:
        """Returns a table of the paper's regret theorem and its repaired version, term by term."""
        theorem, gap = "th:regret_2", "eq:patboundused"
        if self.known.own_places:
            theorem, gap = "th:regret", "lm:eiguen"
        proofs = (f"has a gap: {gap}", "λ⁺_min(Σ)", False), ("complete", "λ'", True)
        columns = []
        for proof, eigenvalue, repaired in proofs:
            bound_at = partial(self.bound, repaired=repaired)
            bound, first = bound_at(self.rounds), paper.useful_from(bound_at)
            terms = (bound.confidence, bound.shrinkage, bound.ranks, bound.warm_up, bound.total)
            growth = f"{self.share}{eigenvalue}/4 = {brief(bound.growth / 4)}"
            below = "beyond 1e30" if first is None else brief(first)
            columns.append((proof, growth, *map(brief, terms), below))
        title = f"Fair regret of Fair-Greedy, T = {brief(self.rounds)}, "
        title += f"with probability ≥ {brief(1 - self.delta)}"
        headers = ("", f"the paper's {theorem}", "repaired")
        rows = zip(_TERMS, *columns, strict=True)
        return make_table(headers, rows, right=headers[1:], title=title)

    def instance(self, moments: Mapping[float, paper.Constant]) -> Table:
        """Returns a table of λ_κ by κ, and the first two terms of the regret theorem with λ_κ."""
        stated = self.bound(self.rounds, repaired=False)
        rows = []
        for kappa, moment in moments.items():
            ratio, terms = 2 * moment.value / stated.growth, "nothing follows"
            if ratio:
                terms = brief((stated.confidence + stated.shrinkage) / math.sqrt(ratio))
            rows.append((brief(kappa), _measured(moment), brief(ratio), terms))
        ratios = f"2λ_κ ÷ {self.share}λ⁺_min(Σ)"
        headers = ("κ", "λ_κ ± std. error", ratios, "confidence + regular.")
        title = f"Second moment of picks on this instance ({moments[0.0].how})"
        return make_table(headers, rows, right=headers, title=title)

    def trade_off(self, costs: paper.TradeOff, title: str) -> Table:
        chance = costs.chance(self.known.norm.value, self.known.theta)
        rows = [
            ("the ε with the greatest ε·p(ε)", brief(costs.epsilon)),
            ("p(ε): how often the fair optimum loses more than ε", _measured(costs.share)),
            ("its standard regret per round", _measured(costs.mean_loss)),
            ("its regret over T rounds is at least T·εp/2 = T ×", brief(costs.rate / 2)),
            ("… with probability at least εp/(4L‖μ*‖)", brief(chance)),
            ("fair regret per round of the reward optimum", _measured(costs.mean_unfairness)),
        ]
        return make_table(("", "value"), rows, right=["value"], title=title, show_header=False)

    def remarks(self, picked: paper.Constant) -> list[str]:
        """Explains the tables and their limits; `picked` is λ₀."""
        known, share = self.known, self.share
        half = self.bound(self.rounds, repaired=False).growth / 2
        floor = paper.repaired_floor(known, self.rounds, known.split(self.delta), self.alpha)
        comparison = "less than that" if picked.value < half else "not less"
        texts = [
            "The gap: the paper assumes that picked contexts have the same second moment as all "
            f"contexts of their group, so at least {share}λ⁺_min(Σ)/2 = {brief(half)}. But picks "
            f"are selected by rank: the fair optimum's picks have λ₀ = {_measured(picked)} here, "
            f"{comparison}; on some problems far less. This refutes the proof, not the theorem.",
            f"Repaired: a pick's second moment is at least {share}λ'/2 = {brief(floor.moment)} "
            f"after s = {brief(floor.lost)} rounds, on any problem with these constants, and "
            f"λ_min(Ŝ) ≥ {share}λ'/4·(t̃ − s) from t̃ = {brief(math.ceil(floor.start))} on."
            if math.isfinite(floor.start)
            else "Repaired: λ' is 0 in floating point, so nothing follows for this problem.",
            "This instance: once all estimated ranks are within κ of the true ranks, a pick's "
            f"second moment is at least λ_κ, and 2λ_κ replaces {share}λ'. The first such round "
            "depends on the run, and the table leaves out the rounds before it.",
        ]
        # pools with one candidate per group draw them independently, as assumption (iii) demands
        if known.own_places and not known.ties:
            picks = brief(self.rounds / known.places)
            texts.append(
                "Parity: Fair-Greedy picks each group with probability 1/K in every round (lemma "
                f"DGP), so T/K = {picks} times on average; fairbandit audit tests it."
            )
        elif known.own_places:
            texts.append(
                "Parity is not proved here: lemma DGP assumes continuous rewards (assumption iv), "
                "and the true rewards of two random candidates of one group are equal with "
                f"probability up to {brief(known.ties)}. Rare ties leave Fair-Greedy near parity."
            )
        else:
            texts.append(
                "Parity is not proved here: lemma DGP assumes one candidate of each group in every "
                "pool, independent of the others (assumption iii)."
            )
        if not self.has_trade_off:
            texts.append("thm:linreg_opt assumes two groups with one place each and densities.")
        return [*texts, *(f"Caveat: {caveat}." for caveat in known.caveats)]
