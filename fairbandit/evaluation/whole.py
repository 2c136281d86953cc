"""What other policies would have given on the decisions of a log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.agent import Agent
from fairbandit.agent.inputs import number, whole
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.direct import direct_values, unspanned
from fairbandit.evaluation.frozen import Frozen, named
from fairbandit.evaluation.plan import plan
from fairbandit.evaluation.sums import Found, Picked, check, evaluate_sums, merged
from fairbandit.evaluation.weighted import Estimate, win
from fairbandit.logs import Floats, Log
from fairbandit.policy import Policy

if TYPE_CHECKING:
    import pandas as pd

PREFERRED = ("anytime", "dr", "direct", "snips", "ips", "exact")
"""The estimators by which policies are compared: the first one that all of them have."""

ANYONE = ""
"""The name of uniform picks among the policies, for the support of `win`."""


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
        A table with the columns `COLUMNS`. Its `attrs` hold `diagnostics`, an entry for each policy
        (effective number of decisions, largest weight, share without support), `notes` and
        `assumptions`.

    Raises:
        FairbanditError: a value out of range, no such policy, or an agent that has learned from
            this very log.
    """
    check(level, reward_range)
    if anytime and reward_range is None:
        raise FairbanditError("anytime=True needs reward_range=(least, greatest) of a reward")
    every = named(policies)
    for name, policy in every.items():
        if isinstance(policy, Agent) and policy.log_hash in log.hashes:
            raise FairbanditError(
                f"{name} has learned from this log, which would flatter it; judge it by decisions "
                "that it has not seen, or give its policy, which is trained on a part of the log"
            )
    forward = anytime or (log.adaptive if adaptive is None else adaptive)
    train, folds, seed = number(train, "train"), whole(folds, "folds", 1), whole(seed, "seed", 0)
    parts = plan(len(log), train=train, folds=folds, seed=seed, forward=forward)
    judged, chances, sums = list[Log](), list[dict[str, Floats]](), []
    for part in parts:
        frozen = Frozen(log[part.trained], every, seed=seed, modelled=log[part.modelled])
        judged.append(log[part.judged])
        chances.append(frozen.probabilities(judged[-1]))
        sums.append(frozen.sums(judged[-1], {**chances[-1], ANYONE: _uniform(judged[-1])}))
    total = merged(sums)
    anyone = total.pop(ANYONE)
    if math.isinf(anyone.least):
        raise FairbanditError("none of the decisions that judge has a reward")
    learned = bool(train) and any(isinstance(policy, Policy) for policy in every.values())
    best, *direct = _direct(judged, chances, seed, apart=learned).T
    further, n = dict[str, list[Found]](), sum(map(len, judged))
    for name, reward, rank in zip(every, direct, direct[len(every) :], strict=False):
        further[name] = [*_estimates(best, reward, rank, n, level)]
        if not total[name].refusal and not anyone.refusal and total[name].weighted.mean[1] > 0:
            further[name].append(("win", "snips", _win(judged, [c[name] for c in chances], level)))
    span = reward_range if anytime else None
    table = evaluate_sums(total, level=level, reward_range=span, further=further)
    if anyone.refusal and any(not total[name].refusal for name in every):
        table.attrs["notes"].append(f"win is refused: of random candidates, {anyone.refusal}")
    table.attrs["notes"] += _notes(judged, best, forward)
    if choose is not None:
        table.attrs["chosen"] = chosen(table, choose)
    return table


def _uniform(log: Log) -> Floats:
    """The probabilities of uniform picks, (n, K)."""
    present = log.groups >= 0
    share: Floats = present * ((log.picks >= 0).sum(1) / present.sum(1))[:, None]
    return share


def _win(judged: Sequence[Log], chances: Sequence[Floats], level: float) -> Estimate:
    picks = [Picked.of(log, own) for log, own in zip(judged, chances, strict=True)]
    weights, rewards, references, groups = (
        np.concatenate(part) for part in list(zip(*picks, strict=True))[1:]
    )
    return win(weights, rewards, references, groups, level)


def _direct(
    judged: Sequence[Log], chances: Sequence[dict[str, Floats]], seed: int, *, apart: bool
) -> Floats:
    """The values of `direct_values`; a mean over the parts, if policies differ among them."""
    if not apart:
        judged = [Log.joined(judged)]
        chances = [{name: np.concatenate([one[name] for one in chances]) for name in chances[0]}]
    found = [
        direct_values(log, list(own.values()), seed + number)
        for number, (log, own) in enumerate(zip(judged, chances, strict=True))
    ]
    return np.average(found, axis=0, weights=[len(log) for log in judged])


def _estimates(best: Floats, reward: Floats, rank: Floats, n: int, level: float) -> Iterator[Found]:
    """The direct estimates of a policy, less their bias, as the bootstrap estimates it."""
    from scipy.stats import t  # here, since it takes half a second

    measures = ("reward", reward), ("rank", rank), ("fair_regret", best - rank)
    for measure, (value, *again) in measures:
        centre = 2 * float(value) - float(np.mean(again))
        half = float(t.ppf((1 + level) / 2, len(again) - 1) * np.std(again, ddof=1))
        yield measure, "direct", Estimate(centre, centre - half, centre + half, n, n)


def _notes(judged: Sequence[Log], best: Floats, forward: bool) -> Iterator[str]:
    """What a reader has to know beside the numbers."""
    n = sum(map(len, judged))
    independent = 0.0
    for log in judged:  # the m largest of K independent uniform ranks are 1 − (m + 1)/2(K + 1)
        sizes, picks = (log.groups >= 0).sum(1), (log.picks >= 0).sum(1)
        independent += float((1 - (picks + 1) / (2 * (sizes + 1))).sum()) / n
    bias = float(best[1:].mean() - best[0])
    yield (
        f"the best estimated rank of a pool is {best[0]:.4f} on average; independent candidates "
        f"would give {independent:.4f}. The best of estimates is biased, by {bias:+.4f} "
        "as the bootstrap estimates it; fair_regret is given less this"
    )
    yield "policies were trained forward in time" if forward else "decisions were dealt at random"
    if lost := max(map(unspanned, judged)):
        yield (
            f"direct is a guess: no pick differs in {lost} dimensions of the contexts, such as a "
            "group that was never picked"
        )
    missing = sum(log.missing * len(log) for log in judged) / n
    if missing:
        yield (
            f"{missing:.1%} of the rewards are missing, and their decisions are left out of reward "
            "and win, as if they were missing at random"
        )


def chosen(table: pd.DataFrame, measure: str) -> str:
    """The policy whose interval has the best near end; see `evaluate`.

    Raises:
        FairbanditError: no such measure, or no estimator that all policies have.
    """
    rows = table[(table["measure"] == measure) & (table["estimator"] == preferred(table, measure))]
    at = rows["high"].idxmin() if measure == "fair_regret" else rows["low"].idxmax()
    return str(rows.loc[at, "policy"])


def preferred(table: pd.DataFrame, measure: str) -> str:
    """The estimator of a measure by which policies are compared: the best one that all have.

    Raises:
        FairbanditError: there is none.
    """
    rows = table[table["measure"] == measure]
    counts = rows["estimator"].value_counts()
    every = table["policy"].nunique()
    found = [one for one in PREFERRED if counts.get(one, 0) == every]
    if not found:
        valid = ", ".join(dict.fromkeys(table["measure"]))
        raise FairbanditError(
            f"choose={measure!r}: not all policies have it; the measures are {valid}"
        )
    return found[0]
