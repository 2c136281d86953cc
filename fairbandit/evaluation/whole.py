"""Judges policies by decisions of a log from which they have not learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.agent import Agent
from fairbandit.agent.inputs import number, numbers, whole
from fairbandit.errors import FairbanditError, unknown
from fairbandit.evaluation.betting import uniform
from fairbandit.evaluation.choosing import chosen
from fairbandit.evaluation.direct import direct_estimates, direct_values, unspanned
from fairbandit.evaluation.estimates import ACROSS, Estimate, by_group, checked_confidence
from fairbandit.evaluation.frozen import decided, named, plan, read_for
from fairbandit.evaluation.sums import LOGGED, Sums, wins
from fairbandit.logs import Floats, Log, read_log
from fairbandit.logs.propensities import ASSUMPTION, calibration
from fairbandit.notices import listed
from fairbandit.runs.intervals import UNBOUNDED, Span
from fairbandit.runs.notices import unknown_rates

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("policy", "measure", "estimator", "value", "low", "high", "n", "ess")
"""The columns of the table of an evaluation."""

MEASURES = ("reward", "rank", "fair_regret", "win", *ACROSS.values(), "share", "selection")
"""The measures in the order of the table; the same of each group follow in this order."""

ASSUMPTIONS = {
    "ips, snips, dr, win": "propensities are right and positive where the policy's are; rewards "
    "that are missing are so completely at random; the reward of a pick of several does not depend "
    "on the others; intervals are normal in the number of effective decisions (ess)",
    "direct": "mean rewards are linear in the features, logged picks span the contexts and depend "
    "on logged quantities alone; intervals are bootstrapped over decisions",
    "anytime": "propensities and rewards as above, rewards in the range given; covers the mean "
    "over the decisions that judge, and holds at all times at once for a policy that stays frozen",
    "exact": "the pools are independent and have the distribution of the log",
}


def evaluate(
    log: Any,
    policies: Any,
    *,
    train: float = 0.5,
    folds: int = 2,
    seed: int = 0,
    confidence: float = 0.95,
    adaptive: bool | None = None,
    anytime: bool = False,
    reward_range: tuple[float, float] | None = None,
    choose: str | None = None,
    limits: str | Sequence[str] | None = None,
    **reading: Any,
) -> pd.DataFrame:
    """Estimates rewards, relative ranks and selection rates of policies from a log.

    A policy learns from one part of the log, is frozen, and is judged by the other; the parts then
    change places, so that each decision judges once. See `plan` for the division of the decisions.

    Args:
        log: logged decisions, from `read_log`; or a source of `read_log`, which is then read, a
            table encoded like the rows of the first agent with an encoder.
        policies: the name of a policy, a mapping as in `build`, a `Policy`, an `Agent`, or the file
            of a saved agent; or a list of these. Agents are judged without further training.
        train: the share of the decisions that train; 0 for policies that do not learn.
        folds: the number of parts that are judged.
        seed: the seed of the division, of the policies' draws and of the bootstrap.
        confidence: the confidence of all intervals.
        adaptive: whether logged decisions depend on earlier rewards, so that policies are trained
            forward in time only. None reads it from the log.
        anytime: adds intervals for `reward` over the decisions that judge; trains forward too. For
            agents with `train=0`, they hold at all times of a growing log at once.
        reward_range: the least and the greatest possible reward. `anytime` needs it, and so do
            other intervals of rewards if all known rewards are equal.
        choose: a measure; `attrs["chosen"]` names the policy whose interval has the best near end:
            the smallest upper end of a regret or gap, else the largest lower end. A note says
            which policies tie with it, and another which policies are not within the limits.
        limits: what `choose` may choose, such as "selection_ratio>=0.8", or a list: policies whose
            own intervals lie within all limits. If there is none, `attrs["chosen"]` is None.
        reading: arguments of `read_log` for a source.

    Returns:
        A table with the columns `COLUMNS`. Its first policy is `logged`, the picks of the log with
        weights of 1, which is not chosen. The table's `attrs` hold `diagnostics`, an entry for each
        policy (effective number of decisions, largest weight, share without support), `notes`,
        `assumptions`, and `policies`, the config of each policy. If propensities are estimated,
        each row says in a column `assumes` what this needs, and `calibration` compares the
        estimated probabilities of tenths of the candidates with the shares that were picked.

    Raises:
        FairbanditError: a value is out of range, a policy does not exist, or an agent has learned
            from this log.
    """
    judges, arguments = named(policies), [*(read_log.__kwdefaults__ or {})]
    for wrong in reading.keys() - {*arguments}:
        raise unknown("argument", wrong, arguments)
    if not isinstance(log, Log):
        log = read_for(log, judges, reading)
    elif reading:
        raise FairbanditError(
            f"{', '.join(reading)}: expected a path or a table to read, got a log"
        )
    if not {type(adaptive), type(anytime)} <= {bool, type(None)}:
        got = f"got {adaptive!r} and {anytime!r}"
        raise FairbanditError(f"adaptive and anytime must be true or false; {got}")
    if anytime and log.pick_scores is not None:
        raise FairbanditError("anytime=True needs propensities that are known, not estimated")
    if anytime and reward_range is None:
        raise FairbanditError("anytime=True needs reward_range=(least, greatest) of a reward")
    train, folds, seed = number(train, "train"), whole(folds, "folds", 1), whole(seed, "seed")
    confidence = checked_confidence(confidence)
    adaptive = log.adaptive if adaptive is None else adaptive
    notes_of_log = list(log.notes)
    for name, judge in judges.items():
        if isinstance(judge, Agent):
            notes_of_log += judge.schema.check_log(log.schema, log.pick_keys, name)
        elif not train:
            if judge.reads_rewards:
                raise FairbanditError(f"{name} learns, and train=0 leaves nothing to learn from")
            judges[name] = Agent.from_log(judge, log[:0], seed=seed)
    forward = bool(anytime or adaptive)
    divided = plan(len(log), train, folds, seed, forward=forward)
    parts = [log[rows] for _, rows in divided]
    pairs = zip(divided, parts, strict=True)
    judgements = [decided(log[rows], part, judges, seed) for (rows, _), part in pairs]
    judged = log[np.concatenate([rows for _, rows in divided])]
    if np.isnan(judged.rewards).all():
        raise FairbanditError("none of the decisions that judge has a reward")
    span, possible = _spans(judged, reward_range)
    chances, scores = (np.concatenate(arrays, axis=-1) for arrays in zip(*judgements, strict=True))
    if all(isinstance(judge, Agent) for judge in judges.values()):
        parts, judgements = [judged], [(chances, scores)]  # agents are the same in all parts
    direct = [
        direct_values(part, np.vstack([part.picked, pi]), seed + fold)
        for fold, (part, (pi, _)) in enumerate(zip(parts, judgements, strict=True))
    ]
    values = np.average(direct, axis=0, weights=[len(part) for part in parts])
    random = Sums.of(judged, uniform(judged), scores)  # `win` compares with random candidates
    sums = {LOGGED: Sums.logged(judged, scores)}
    sums |= {name: Sums.of(judged, pi, scores) for name, pi in zip(judges, chances, strict=True)}
    made, estimates = judged.at_places(judged.propensities, 0.0), dict[str, list[Estimate]]()
    # the weights of the logged picks, whose probabilities are `made`, are 1
    for index, (name, pi) in enumerate(zip(sums, [made, *chances], strict=True)):
        estimates[name] = [*sums[name].estimates(span, possible if anytime else None)]
        estimates[name] += direct_estimates(values[:, :, index], judged, sums[name], span)
        estimates[name] += _wins(judged, pi, random, sums[name])
    table = table_of(sums, estimates, confidence)
    notes = table.attrs["notes"]
    if span == UNBOUNDED:
        notes.append(
            f"all known rewards are {np.nanmin(judged.rewards):g}: they do not show which others "
            "are possible, so that intervals of rewards are infinite; give reward_range=(least, "
            "greatest) of a reward"
        )
    if (refusal := random.refusal) and any(not sums[name].refusal for name in judges):
        notes.append(f"win is refused: of random candidates, {refusal}")
    notes += [*notes_of_log, *_notes(judged, values[:, 3, 0].sum(1), forward, parts)]
    unknown_model = any(np.isnan(log.rewards[rows]).all() for rows, _ in divided)
    if unknown_model and (table["estimator"] == "dr").any():
        notes.append(
            "dr equals ips where no reward trains its model: give folds=2 where decisions are "
            "dealt at random, or train above 0 where policies are trained forward in time"
        )
    table.attrs["policies"] = {
        name: (judge.policy if isinstance(judge, Agent) else judge).describe()
        for name, judge in judges.items()
    }
    if log.pick_scores is not None:
        table["assumes"] = ASSUMPTION
        table.attrs["calibration"] = calibration(log)
    if choose is not None or limits is not None:
        others = table[table["policy"] != LOGGED]
        table.attrs["chosen"], why = chosen(others, choose, limits)
        table.attrs["notes"] += why
    return table


def _spans(log: Log, reward_range: Any) -> tuple[Span, Span]:
    """Returns the span of the known rewards and the limits of possible ones, infinite if unknown.

    Known rewards that are all equal show no span; it is then these limits.
    """
    least, most = float(np.nanmin(log.rewards)), float(np.nanmax(log.rewards))
    limits = UNBOUNDED
    if reward_range is not None:
        ends = numbers(reward_range, "reward_range")
        if ends.shape != (2,) or not ends[0] <= least <= most <= ends[1] > ends[0]:
            raise FairbanditError(
                "reward_range: expected the least and the greatest possible reward; the log has "
                f"rewards from {least:g} to {most:g}; got {reward_range}"
            )
        limits = float(ends[0]), float(ends[1])
    return (least, most) if least < most else limits, limits


def _wins(log: Log, chances: Floats, random: Sums, sums: Sums) -> Iterator[Estimate]:
    """Yields `win`, and by group, where there is support for picks and for random candidates."""
    unseen = {**random.unseen, **sums.unseen}
    if len(unseen) == len(sums.groups) or not sums.picked.mean[1] > 0:
        return
    whole, groups = wins(log, chances)
    if not random.refusal and not sums.refusal:
        yield "win", "snips", whole
    supported = {label: value for label, value in groups.items() if label not in unseen}
    yield from by_group("win", "snips", supported, whole=False)


def table_of(
    sums: Mapping[str, Sums], estimates: Mapping[str, Sequence[Estimate]], confidence: float
) -> pd.DataFrame:
    """Makes the table of `evaluate` from the sums and the estimates of each policy."""
    import pandas as pd

    rows, notes = [], list[str]()
    for name, policy in sums.items():
        order = [*MEASURES, *(f"{key}:{label}" for key in MEASURES for label in policy.groups)]
        for measure, estimator, of in sorted(estimates[name], key=lambda row: order.index(row[0])):
            low, high = of.ends(confidence)
            if low <= high:
                rows.append((name, measure, estimator, of.value, low, high, of.n, of.ess))
            else:
                notes.append(
                    f"{name}: {estimator} is refused: the ends of its interval cross, at "
                    f"{low:.3g} and {high:.3g}: its assumptions do not hold"
                )
        counts = {label: (of.picks, of.candidates) for label, of in policy.groups.items()}
        if note := unknown_rates(counts):
            notes.append(f"{name}: {note}")
        if policy.refusal:
            notes.append(
                f"{name}: ips, snips, dr and win are refused: {policy.refusal}. Log with a "
                "selector that picks every candidate now and then, such as epsilon_greedy"
            )
        if policy.unseen and not policy.wrong:
            reasons = "; ".join(f"{label}, {why}" for label, why in policy.unseen.items())
            notes.append(f"{name}: ips, snips, dr and win are refused for some groups: {reasons}")
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    used = set(table["estimator"][table["policy"] != LOGGED])
    needed = {names: text for names, text in ASSUMPTIONS.items() if used & set(names.split(", "))}
    diagnostics = [{"policy": name, **policy.diagnostics} for name, policy in sums.items()]
    table.attrs |= {"diagnostics": diagnostics, "notes": notes, "assumptions": needed}
    return table


def _notes(log: Log, best: Floats, forward: bool, parts: Sequence[Log]) -> Iterator[str]:
    # the m largest of K independent uniform ranks are 1 − (m + 1)/2(K + 1)
    independent = float((1 - (log.slots + 1) / (2 * (log.sizes + 1))).mean())
    yield (
        f"the best estimated rank of a pool is {best[0]:.4f} on average; independent candidates "
        f"would give {independent:.4f}. The best of estimates has a bias, which the bootstrap "
        f"estimates as {best[1:].mean() - best[0]:+.4f}; fair_regret is corrected by it"
    )
    yield "policies were trained forward in time" if forward else "decisions were dealt at random"
    losses = [(*unspanned(part), number) for number, part in enumerate(parts, 1)]
    lost, names, number = max(losses, key=lambda row: row[0])
    if lost:
        where = f"in part {number} of {len(parts)} of the decisions that judge, " * (len(parts) > 1)
        such = listed([*map(repr, names)], 3) if names else "a group without such picks"
        yield (
            f"direct is a guess: {where}all picks with a reward are equal in {lost} dimensions of "
            f"the contexts, such as {such}"
        )
    if log.missing:
        yield (
            f"{log.missing:.1%} of the rewards are missing, and their decisions are left out of "
            "reward and win; that is right only if they are missing completely at random, "
            "independent of group, features and reward"
        )
