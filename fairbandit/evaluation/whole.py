"""Judges policies by the decisions of a log from which they have not learned."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.agent import Agent
from fairbandit.agent.inputs import number, whole
from fairbandit.building import build_policy, presets
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.direct import LinearModel, direct_estimates, direct_values, unspanned
from fairbandit.evaluation.estimates import win
from fairbandit.evaluation.sums import Found, Sums, check, evaluate_sums, merged, weighted_picks
from fairbandit.logs import Floats, Ints, Log, read_pieces
from fairbandit.policy import Policy

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

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
    judged, chances, sums = list[Log](), list[dict[str, Floats]](), list[dict[str, Sums]]()
    parts = plan(len(log), train, folds, seed, forward=forward)
    for trained, judges in parts:
        frozen, part = Frozen(log[trained], every, seed=seed, learns=train > 0), log[judges]
        own, present = frozen.probabilities(part), part.groups >= 0
        anyone = present * ((part.picks >= 0).sum(1) / present.sum(1))[:, None]
        shares = {**own, ANYONE: anyone}
        sums.append({name: Sums.of(part, one, frozen.model) for name, one in shares.items()})
        judged.append(part)
        chances.append(own)
    total = merged(sums)
    support = total.pop(ANYONE)
    if support.least > support.greatest:
        raise FairbanditError("none of the decisions that judge has a reward")
    joined, further = log[np.concatenate([judges for _, judges in parts])], dict[str, list[Found]]()
    together = {name: np.concatenate([one[name] for one in chances]) for name in every}
    if not train or all(isinstance(policy, Agent) for policy in every.values()):
        judged, chances = [joined], [together]  # no policy differs among the parts
    values = [
        direct_values(part, list(own.values()), seed + place)
        for place, (part, own) in enumerate(zip(judged, chances, strict=True))
    ]
    best, *direct = np.average(values, axis=0, weights=[len(part) for part in judged]).T
    for name, reward, rank in zip(every, direct, direct[len(every) :], strict=False):
        further[name] = [*direct_estimates(best, reward, rank, len(joined), level)]
        if not total[name].refusal and not support.refusal and total[name].mean[1] > 0:
            _, w, r, references, of = weighted_picks(joined, together[name])
            further[name].append(("win", "snips", win(w, r, references, of, level)))
    span = reward_range if anytime else None
    table = evaluate_sums(total, level=level, reward_range=span, further=further)
    notes = table.attrs["notes"]
    if support.refusal and any(not one.refusal for one in total.values()):
        notes.append(f"win is refused: of random candidates, {support.refusal}")
    notes += _notes(joined, best, forward, max(map(unspanned, judged)))
    if choose is not None:
        rows = preferred(table, choose).set_index("policy")
        lowest = choose == "fair_regret"
        table.attrs["chosen"] = rows["high"].idxmin() if lowest else rows["low"].idxmax()
    return table


class Frozen:
    """Policies that learned from some decisions, and a linear model of the mean reward.

    It can be sent to other processes, each of which sums up decisions of its own.

    Args:
        log: decisions from which policies learn; agents are as they are.
        policies: as `evaluate` takes them.
        seed: of the policies' draws.
        learns: whether policies learn, too, or the model alone.

    Raises:
        FairbanditError: no such policy, one that would have to learn from nothing, an agent of
            another number of features, or a log without contexts.
    """

    def __init__(self, log: Log, policies: Any, *, seed: int = 0, learns: bool = True) -> None:
        if log.contexts is None:
            raise FairbanditError("the log leaves out the contexts, and no policy decides without")
        self._like, self._features = log[:0] if log.encoder else None, log.features
        self.model, self._agents = LinearModel(log), dict[str, Agent]()
        for name, one in named(policies).items():
            if isinstance(one, Policy) and one.estimator.learns and not learns:
                raise FairbanditError(f"{name} learns, and train=0 leaves nothing to learn from")
            if isinstance(one, Policy):
                one = Agent.from_log(one, log if learns else log[:0], seed=seed)
            if (d := one._now.known.problem.features) != log.contexts.shape[2]:
                raise FairbanditError(f"{name} takes {d} features, not {len(log.features)}")
            self._agents[name] = one

    def probabilities(self, log: Log) -> dict[str, Floats]:
        """The probabilities of all candidates of n decisions under each policy, (n, K)."""
        if log.contexts is None or log.features != self._features:
            raise FairbanditError(
                f"expected decisions with the features {self._features}, got {log.features}"
            )
        found = {name: np.empty(log.groups.shape) for name in self._agents}
        picks = (log.picks >= 0).sum(1)
        for m in np.unique(picks).tolist():
            some = picks == m
            given = log.contexts[some], log.groups[some], log.labels, m
            for name, agent in self._agents.items():
                found[name][some] = agent.probabilities(*given)
        return found

    def sums(self, log: Log) -> dict[str, Sums]:
        """What each policy gives on some decisions, as sums."""
        chances = self.probabilities(log)
        return {name: Sums.of(log, own, self.model) for name, own in chances.items()}

    def judge(self, path: str | PathLike[str], **options: Any) -> dict[str, Sums]:
        """The sums of the decisions of a file or folder, which is read in pieces.

        Features of tables are encoded as those of the log from which the policies learned.

        Args:
            path, options: as for `read_pieces`.
        """
        return merged(map(self.sums, read_pieces(path, like=self._like, **options)))


def named(policies: Any) -> dict[str, Policy | Agent]:
    """Policies and agents by name; one whose name is taken gets a number."""
    made = (Policy, Agent)
    own = isinstance(policies, dict) and list(policies.values())
    if own and all(isinstance(one, made) for one in own):
        return dict(policies)
    found = dict[str, Policy | Agent]()
    for one in policies if isinstance(policies, (list, tuple)) else [policies]:
        policy: Policy | Agent
        if isinstance(one, (str, Path)) and str(one) not in presets() and Path(one).is_file():
            policy, name = Agent.load(one), Path(one).name
        else:
            policy = one if isinstance(one, made) else build_policy(one)
            name = policy.name if isinstance(policy, Policy) else "agent"
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        found[next(each for each in names if each not in found)] = policy
    if not found:
        raise FairbanditError("policies: expected a policy, an agent or a list of these")
    return found


def plan(n: int, train: float, folds: int, seed: int, *, forward: bool) -> list[tuple[Ints, Ints]]:
    """Divides n decisions into parts that judge once each what others have trained.

    At random, each of the folds is judged by what is trained on `train`·n of the other decisions.
    Forward in time, the first `train`·n decisions only train; the others are cut into folds, and
    each is judged by what is trained on all decisions before it. So no summand depends on later
    data, and the errors of weighted estimators are martingale differences, whoever decided. With
    train=0 the reward model of `dr` alone is fitted, to all decisions that may train.

    Returns:
        For each part the decisions that train, and those that judge, (n,) ascending.

    Raises:
        FairbanditError: a value out of range, or too few decisions for so many parts.
    """
    least = 1 if forward or not train else 2
    if not 0 <= train < 1 or folds < least or (not forward and train > 1 - 1 / folds):
        raise FairbanditError(
            f"train={train:g} and folds={folds}: expected train in [0, 1) and folds of at least "
            f"{least}; where decisions are dealt at random, train is at most 1 − 1/folds"
        )
    first, draws = round(train * n), np.random.default_rng(seed)
    if n - first * forward < 2 * folds or (train and not first):
        raise FairbanditError(f"{n} decisions are too few for train={train:g} and folds={folds}")
    if forward:
        return [(np.arange(cut[0]), cut) for cut in np.array_split(np.arange(first, n), folds)]
    parts = []
    for cut in np.array_split(draws.permutation(n), folds):
        others = draws.permutation(np.setdiff1d(np.arange(n), cut))
        parts.append((np.sort(others[: first or n]), np.sort(cut)))
    return parts


def _notes(log: Log, best: Floats, forward: bool, lost: int) -> Iterator[str]:
    """What a reader has to know beside the numbers."""
    sizes, picks = (log.groups >= 0).sum(1), (log.picks >= 0).sum(1)
    # the m largest of K independent uniform ranks are 1 − (m + 1)/2(K + 1)
    independent = float((1 - (picks + 1) / (2 * (sizes + 1))).mean())
    yield (
        f"the best estimated rank of a pool is {best[0]:.4f} on average; independent candidates "
        f"would give {independent:.4f}. The best of estimates is biased, by "
        f"{best[1:].mean() - best[0]:+.4f} as the bootstrap estimates it; fair_regret is given "
        "less this"
    )
    yield "policies were trained forward in time" if forward else "decisions were dealt at random"
    if lost:
        yield (
            f"direct is a guess: no pick differs in {lost} dimensions of the contexts, such as a "
            "group that was never picked"
        )
    if log.missing:
        yield (
            f"{log.missing:.1%} of the rewards are missing, and their decisions are left out of "
            "reward and win, as if they were missing at random"
        )


def preferred(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The rows of a measure by which policies are compared: of the best estimator that all have.

    Raises:
        FairbanditError: there is none.
    """
    rows = table[table["measure"] == measure]
    counts, every = rows["estimator"].value_counts(), table["policy"].nunique()
    for estimator in PREFERRED:
        if counts.get(estimator, 0) == every:
            return rows[rows["estimator"] == estimator]
    valid = ", ".join(dict.fromkeys(table["measure"]))
    raise FairbanditError(f"choose={measure!r}: not all policies have it; the measures are {valid}")


def draw(table: pd.DataFrame) -> Figure:
    """Draws each policy at its reward (across) and fair regret (up), with both intervals.

    Args:
        table: what `evaluate` returned.
    """
    from matplotlib.figure import Figure

    from fairbandit.figures.style import WIDTH, applied, looks

    rows = [preferred(table, measure).set_index("policy") for measure in ("reward", "fair_regret")]
    with applied():
        figure = Figure(figsize=(WIDTH * 0.6, WIDTH * 0.45), layout="constrained")
        panel = figure.add_subplot()
        for name, look in looks(rows[0].index).items():
            x, y = (row.loc[name] for row in rows)
            arms = [[[one.value - one.low], [one.high - one.value]] for one in (x, y)]
            panel.errorbar(x.value, y.value, arms[1], arms[0], look.marker, **look.line)
        panel.set_xlabel(f"mean reward ({rows[0]['estimator'].iloc[0]}) →")
        panel.set_ylabel("← mean fair regret (direct)")
        figure.legend(loc="outside lower center", ncols=min(4, len(rows[0])))
    return figure
