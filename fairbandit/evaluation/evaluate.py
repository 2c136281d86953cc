"""What other policies would have given on the decisions of a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.agent import Agent
from fairbandit.building import build_policy, presets
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.betting import anytime_interval
from fairbandit.evaluation.direct import LinearModel, Values, direct_values
from fairbandit.evaluation.plan import Part, plan
from fairbandit.evaluation.weighted import Estimate, Weighted, win
from fairbandit.logs import Floats, Log
from fairbandit.policy import Policy

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("policy", "measure", "estimator", "value", "low", "high", "n", "ess")
"""The columns of an evaluation."""

ASSUMPTIONS = {
    "ips, snips, dr, win": "propensities are right and positive where the policy's are; intervals "
    "are normal in the number of effective decisions (ess)",
    "direct": "mean rewards are linear in the features, logged picks span the contexts and depend "
    "on nothing but what is logged; intervals are bootstrapped over decisions",
    "anytime": "propensities as above, rewards in the range given; holds at all times at once",
    "selection": "exact for the pools of the log",
}
"""What each estimator assumes."""

UNSUPPORTED = 1e-9
"""A larger share of a policy's probability without support is refused."""

DOUBTFUL = 3.9
"""So many standard errors may the mean weight be off 1: 1e-4 by chance."""


def evaluate(
    log: Log,
    policies: Any,
    *,
    train: float = 0.5,
    folds: int = 2,
    seed: int = 0,
    level: float = 0.95,
    adaptive: bool | None = None,
    anytime: bool = False,
    reward_range: tuple[float, float] | None = None,
    choose: str | None = None,
) -> pd.DataFrame:
    """Estimates rewards, relative ranks and selection rates of policies from a log.

    A policy learns from one part of the log, is frozen, and is judged on the other; the parts then
    change places, so that each decision judges once. See `plan` for how decisions are divided.

    Args:
        log: logged decisions, as `read_log` gives them.
        policies: a policy's name, a mapping as `build` takes it, a `Policy`, an `Agent` or the file
            of a saved one, which is judged as it is; or a list of these.
        train: the share of the decisions that train; 0 for policies that learn nothing.
        folds: how many parts are judged.
        seed: of the division, of the policies' draws and of the bootstrap.
        level: of all intervals.
        adaptive: whether logged decisions depend on earlier rewards. Then policies are trained
            forward in time only. None takes what the log says.
        anytime: adds intervals for `reward` that hold at all times at once; trains forward too.
        reward_range: the least and the greatest possible reward, for `anytime`.
        choose: a measure; `attrs["chosen"]` names the policy whose interval has the best near end:
            the smallest upper end of `fair_regret`, else the largest lower end.

    Returns:
        A table with the columns `COLUMNS`. Its `attrs` hold `diagnostics`, a row for each policy
        (effective number of decisions, largest weight, share without support), `notes` and
        `assumptions`.

    Raises:
        FairbanditError: a value out of range, no such policy, or an agent that has learned from
            this very log.
    """
    import pandas as pd

    if not 0 < level < 1:
        raise FairbanditError(f"level: expected a number between 0 and 1, got {level}")
    if anytime and (reward_range is None or not reward_range[0] < reward_range[1]):
        raise FairbanditError("anytime=True needs reward_range=(least, greatest) of a reward")
    if log.contexts is None:
        raise FairbanditError("this log leaves out the contexts, without which no policy decides")
    named = _named(policies)
    for name, policy in named.items():
        if isinstance(policy, Agent) and policy.log_hash in log.hashes:
            raise FairbanditError(
                f"{name} has learned from this log, which would flatter it; judge it by decisions "
                "that it has not seen, or give its policy, which is trained on a part of the log"
            )
    forward = anytime or (log.adaptive if adaptive is None else adaptive)
    parts = plan(len(log), train=train, folds=folds, seed=seed, forward=forward)
    trained = {
        name: np.concatenate([_probabilities(policy, log, part, seed) for part in parts])
        for name, policy in named.items()
    }
    judge = _Judge(log, parts, level, reward_range if anytime else None)
    direct = _direct(log, parts, trained, seed)
    result = _Result(level)
    for name, chances in trained.items():
        judge.weighted(name, chances, result)
        _add_direct(result, name, direct, judge.log)
        judge.selection(name, chances, result)
    _notes(result, judge.log, direct, forward)
    table = pd.DataFrame(result.rows, columns=list(COLUMNS))
    table.attrs |= {"diagnostics": result.diagnostics, "notes": result.notes}
    table.attrs["assumptions"] = ASSUMPTIONS
    if choose is not None:
        table.attrs["chosen"] = _chosen(table, choose)
    return table


@dataclass
class _Result:
    level: float
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, policy: str, measure: str, estimator: str, estimate: Estimate) -> None:
        self.rows.append((policy, measure, estimator, *estimate))


def _named(policies: Any) -> dict[str, Policy | Agent]:
    """Policies and agents by name; one whose name is taken gets a number."""
    given = policies if isinstance(policies, (list, tuple)) else [policies]
    named: dict[str, Policy | Agent] = {}
    for one in given:
        made: Policy | Agent
        if isinstance(one, (Policy, Agent)):
            made, name = one, "agent" if isinstance(one, Agent) else one.name
        elif isinstance(one, (str, Path)) and str(one) not in presets() and Path(one).is_file():
            made, name = Agent.load(one), Path(one).name
        else:
            made = build_policy(one)
            name = made.name
        if name in named:
            name = f"{name}-{sum(other.startswith(name) for other in named) + 1}"
        named[name] = made
    return named


def _probabilities(policy: Policy | Agent, log: Log, part: Part, seed: int) -> Floats:
    """The probabilities of the judged candidates of a part, (n, K), under what was trained."""
    agent = policy
    if isinstance(agent, Policy):
        agent = Agent.from_log(agent, log[part.trained], seed=seed)
    judged = log[part.judged]
    assert judged.contexts is not None
    return agent.probabilities(judged.contexts, judged.groups, judged.labels)


class _Judge:
    """The judged decisions of a log in the order of the parts, with a reward model for `dr`."""

    def __init__(
        self, log: Log, parts: Sequence[Part], level: float, span: tuple[float, float] | None
    ) -> None:
        assert log.contexts is not None
        self.log = log[np.concatenate([part.judged for part in parts])]
        self.level, self.span, self.filled = level, span, self.log.picks >= 0
        self.size = self.filled.sum(1)
        self.known = ~(np.isnan(self.log.rewards) & self.filled).any(1)
        if not self.known.any():
            raise FairbanditError("none of the decisions that judge has a reward")
        modelled = [
            LinearModel(log[part.modelled]).scores(log.contexts[part.judged]) for part in parts
        ]
        self.model = np.concatenate(modelled)

    def weighted(self, name: str, chances: Floats, result: _Result) -> None:
        """Adds the estimates by weights, or the reason why there are none."""
        log, filled = self.log, self.filled
        if np.isnan(log.propensities[filled]).any():
            result.notes.append("the log has no propensities: ips, snips, dr and win are left out")
            return
        logged = np.where(filled, log.propensities, 1.0)
        weights = np.where(filled, log.at_picks(chances) / logged, 0.0)
        reason, lacking = self._support(chances, weights)
        rows = self.known
        w, r = weights[rows], np.where(filled, log.rewards, 0.0)[rows]
        model = self.model[rows]
        expected = (chances[rows] * np.where(log.groups[rows] >= 0, model, 0)).sum(1)
        # a mean over m picks becomes one over those that there are
        w = w * (filled.shape[1] / self.size)[rows, None]
        sums = Weighted.of(w, r, log[rows].at_picks(model), expected / self.size[rows])
        result.diagnostics.append(
            {
                "policy": name,
                "ess": sums.ess,
                "largest_weight": float(weights.max()),
                "unsupported": lacking,
            }
        )
        if reason:
            result.notes.append(
                f"{name}: ips, snips, dr and win are refused: {reason}. Log with a selector that "
                "picks every candidate now and then, such as epsilon_greedy"
            )
            return
        for estimator, estimate in sums.estimates(self.level).items():
            result.add(name, "reward", estimator, estimate)
        if self.span is not None:
            low, high = anytime_interval(w, r, self.span, self.level)
            middle = Estimate((low + high) / 2, low, high, sums.n, sums.ess)
            result.add(name, "reward", "anytime", middle)
        if w.any():
            groups = log.at_picks(log.groups)[rows]
            result.add(name, "win", "snips", win(w, r, logged[rows], groups, self.level))

    def _support(self, chances: Floats, weights: Floats) -> tuple[str, float]:
        """Why weighted estimates are refused, if they are, and the share without support."""
        log = self.log
        if log.draws_models:
            return "the logged probabilities are given a draw of the model", math.nan
        if log.probabilities is not None:
            lacking = float((chances * (log.probabilities <= 0)).sum() / self.size.sum())
            reason = f"{lacking:.1%} of the policy's probability has no support in the log"
            return (reason if lacking > UNSUPPORTED else ""), lacking
        each = weights.sum(1) / self.size
        mean, error = each.mean(), each.std(ddof=1) / math.sqrt(len(each))
        if abs(mean - 1) > DOUBTFUL * error + UNSUPPORTED:
            return f"the mean weight is {mean:.3f} ± {error:.3f}, and 1 was expected", math.nan
        return "", math.nan

    def selection(self, name: str, chances: Floats, result: _Result) -> None:
        """Adds how often each group would be picked, over how often it was received."""
        for group, label in enumerate(self.log.labels):
            here = self.log.groups == group
            if here.any():
                rate = float(chances[here].sum() / here.sum())
                n = len(self.log)
                result.add(name, f"selection:{label}", "exact", Estimate(rate, rate, rate, n, n))


def _direct(
    log: Log, parts: Sequence[Part], trained: Mapping[str, Floats], seed: int
) -> tuple[Values, list[Values]]:
    """The direct values over all parts, and their bootstrap repetitions."""
    found, low = [], 0
    for number, part in enumerate(parts):
        high = low + len(part.judged)
        own = {name: chances[low:high] for name, chances in trained.items()}
        found.append(direct_values(log[part.judged], own, seed + number))
        low = high
    shares = [len(part.judged) / low for part in parts]
    values = [one for one, _ in found]
    repeated = zip(*(many for _, many in found), strict=True)
    return _averaged(values, shares), [_averaged(one, shares) for one in repeated]


def _averaged(values: Sequence[Values], shares: Sequence[float]) -> Values:
    def mean(pick: Any) -> float:
        return sum(share * pick(one) for share, one in zip(shares, values, strict=True))

    names = values[0].reward
    return Values(
        mean(lambda one: one.best),
        {name: mean(lambda one, name=name: one.reward[name]) for name in names},
        {name: mean(lambda one, name=name: one.rank[name]) for name in names},
    )


def _add_direct(result: _Result, name: str, direct: tuple[Values, list[Values]], log: Log) -> None:
    from scipy.stats import norm

    z = float(norm.ppf((1 + result.level) / 2))
    measures = {
        "reward": lambda one: one.reward[name],
        "rank": lambda one: one.rank[name],
        "fair_regret": lambda one: one.best - one.rank[name],
    }
    for measure, of in measures.items():
        repeated = [of(one) for one in direct[1]]
        value = 2 * of(direct[0]) - float(np.mean(repeated))  # less its bias, to first order
        half = z * float(np.std(repeated, ddof=1))
        n = len(log)
        result.add(name, measure, "direct", Estimate(value, value - half, value + half, n, n))


def _notes(result: _Result, log: Log, direct: tuple[Values, list[Values]], forward: bool) -> None:
    """What a reader has to know beside the numbers."""
    value, repeated = direct
    bias = float(np.mean([one.best for one in repeated])) - value.best
    sizes, picks = (log.groups >= 0).sum(1), (log.picks >= 0).sum(1)
    independent = float(np.mean([_best_mean(n, m) for n, m in zip(sizes, picks, strict=True)]))
    result.notes += [
        f"the best estimated rank of a pool is {value.best:.4f} on average; independent candidates "
        f"would give {independent:.4f}. By the bootstrap it is biased by {bias:+.4f}, and so is "
        "fair_regret",
        "policies were trained forward in time" if forward else "decisions were dealt at random",
    ]
    if log.missing:
        result.notes.append(
            f"{log.missing:.1%} of the rewards are missing, and their decisions are left out of "
            "reward and win, as if they were missing at random"
        )


def _best_mean(n: int, m: int) -> float:
    """The mean of the m largest of n independent uniform ranks: (1/m) Σ_{j≤m} (n+1−j)/(n+1)."""
    return 1 - (m + 1) / (2 * (n + 1))


def _chosen(table: pd.DataFrame, measure: str) -> str:
    rows = table[table["measure"] == measure]
    if rows.empty:
        valid = ", ".join(dict.fromkeys(table["measure"]))
        raise FairbanditError(f"choose={measure!r}: the measures are {valid}")
    rows = rows.drop_duplicates("policy", keep="last" if measure == "reward" else "first")
    at = rows["high"].idxmin() if measure == "fair_regret" else rows["low"].idxmax()
    return str(rows.loc[at, "policy"])
