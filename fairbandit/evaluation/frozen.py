"""Policies that learn from one part of a log, and are then judged by another."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.agent import Agent
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.direct import RewardFit, contexts_of
from fairbandit.evaluation.sums import LOGGED
from fairbandit.logs import Floats, Ints, Log, is_table, read_log
from fairbandit.logs.log import PIECE, pieces
from fairbandit.policy.build import build_policy, presets
from fairbandit.policy.policy import Policy
from fairbandit.runs.naming import with_replaced


def plan(n: int, train: float, folds: int, seed: int, *, forward: bool) -> list[tuple[Ints, Ints]]:
    """Returns the decisions that train and that judge in each fold, (n,) ascending each.

    At random, a fold judges policies that are trained on `train`·n of the other decisions. Forward
    in time, the first `train`·n decisions only train; the others are cut into folds, and a fold
    judges policies that are trained on all earlier decisions. Then no summand depends on later
    data, and the errors of weighted estimators are martingale differences for any logging policy.
    With train=0, only the reward model of `dr` is fitted, to all decisions that may train.
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
        rest = draws.permutation(np.setdiff1d(np.arange(n), cut))
        parts.append((np.sort(rest[: first or n]), np.sort(cut)))
    return parts


def read_for(source: Any, judges: Mapping[str, Policy | Agent], reading: Mapping[str, Any]) -> Log:
    """Reads a log with arguments of `read_log`.

    A table is encoded like the rows of the first agent with an encoder, unless the arguments choose
    the features.
    """
    agents = [judge for judge in judges.values() if isinstance(judge, Agent) and judge.encoder]
    if agents and not {"like", "features", "exclude", "products"} & {*reading}:
        reading = {**reading, **({"like": agents[0].encoder} if is_table(source) else {})}
    return read_log(source, **reading)


def decided(
    log: Log, judged: Log, judges: Mapping[str, Policy | Agent], seed: int
) -> tuple[Floats, Floats]:
    """Returns the probabilities of the candidates under policies, (P, R), and their m̂, (R,).

    Policies and the linear model m̂ of the mean reward learn from `log`; agents do not learn.
    """
    contexts, chances = contexts_of(judged), np.empty((len(judges), len(judged.decisions)))
    for judge, pi in zip(judges.values(), chances, strict=True):
        agent = judge if isinstance(judge, Agent) else Agent.from_log(judge, log, seed=seed)
        for m in np.unique(judged.slots).tolist():
            rows, parts = judged[judged.slots == m], []
            for part in (rows[cut] for cut in pieces(rows.sizes, PIECE)):
                x, groups = part.padded(contexts_of(part), 0.0), part.padded(part.groups, -1)
                parts.append(agent.probabilities(x, groups, judged.labels, m)[groups >= 0])
            pi[(judged.slots == m)[judged.decisions]] = np.concatenate(parts)
    return chances, RewardFit(log).scores(contexts)


def named(policies: Any) -> dict[str, Policy | Agent]:
    """Returns policies and agents by name; a name that is taken gets a number."""
    kinds, several = (Policy, Agent), isinstance(policies, (list, tuple))
    pairs = [(None, policy) for policy in (policies if several else [policies])]
    if isinstance(policies, dict) and any(isinstance(p, kinds) for p in policies.values()):
        pairs = [*policies.items()]
    judges = dict[str, Policy | Agent]()
    for name, policy in pairs:
        is_path = isinstance(policy, (str, Path)) and str(policy) not in presets()
        if is_path and Path(policy).is_file():
            judge: Policy | Agent = Agent.load(policy)
            default = Path(policy).name
        else:
            judge = policy if isinstance(policy, kinds) else build_policy(policy)
            default = with_replaced(judge) if isinstance(judge, Policy) else "agent"
        names = chain([name or default], (f"{name or default}-{number}" for number in count(2)))
        judges[next(free for free in names if free not in {LOGGED, *judges})] = judge
    if not judges:
        raise FairbanditError(
            "policies: expected a policy, an agent, or a list of policies and agents"
        )
    return judges
