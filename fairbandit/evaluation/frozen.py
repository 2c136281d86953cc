"""Policies that learn from one part of a log, and are frozen to be judged by another."""

from __future__ import annotations

from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.agent import Agent
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.direct import (
    RewardFit,
    contexts_of,
)
from fairbandit.evaluation.sums import LOGGED, Sums, merged
from fairbandit.logs import Floats, Ints, Log, read_pieces
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
        others = draws.permutation(np.setdiff1d(np.arange(n), cut))
        parts.append((np.sort(others[: first or n]), np.sort(cut)))
    return parts


class Frozen:
    """Policies that have learned from decisions, and a linear model m̂ of the mean reward.

    A `Frozen` can be sent to other processes, which judge different decisions.

    Args:
        log: decisions from which policies learn; agents do not learn.
        policies: as for `evaluate`.
        seed: the seed of the policies' draws.

    Raises:
        FairbanditError: a policy does not exist, or the log lacks contexts.
    """

    def __init__(self, log: Log, policies: Any, *, seed: int = 0) -> None:
        self._like, self._schema = log[:0] if log.encoder else None, log.schema
        self._model, self._agents = RewardFit(log), dict[str, Agent]()
        for name, judge in named(policies).items():
            agent = judge if isinstance(judge, Agent) else Agent.from_log(judge, log, seed=seed)
            self._agents[name] = agent

    def decided(self, log: Log) -> tuple[Floats, Floats]:
        """Returns the probabilities of R candidates under P policies, (P, R), and m̂, (R,)."""
        contexts = contexts_of(log)
        list(self._schema.check_log(log.schema, log.pick_hashes[:0], "the log that trained"))
        for name, agent in self._agents.items():
            list(agent.schema.check_log(log.schema, log.pick_hashes, name))
        chances = np.empty((len(self._agents), len(contexts)))
        for m in np.unique(log.slots).tolist():
            rows = log[log.slots == m]
            some = [rows[cut] for cut in pieces(rows.sizes, PIECE)]
            pools = [(part.padded(contexts_of(part), 0.0), part.groups) for part in some]
            for own, agent in zip(chances, self._agents.values(), strict=True):
                own[(log.slots == m)[log.decisions]] = np.concatenate(
                    [agent.probabilities(x, g, log.labels, m)[g >= 0] for x, g in pools]
                )
        return chances, self._model.scores(contexts)

    def sums(self, log: Log) -> dict[str, Sums]:
        """Returns the sums of some decisions for each policy, and the logged one."""
        chances, scores = self.decided(log)
        pairs = zip(self._agents, chances, strict=True)
        sums = {name: Sums.of(log, own, scores) for name, own in pairs}
        return {LOGGED: Sums.logged(log, scores), **sums}

    def judge(self, path: str | PathLike[str], **options: Any) -> dict[str, Sums]:
        """Returns the sums of a file or folder, which `read_pieces` reads with these options.

        Tables are encoded like the log from which the policies learned.
        """
        return merged(map(self.sums, read_pieces(path, like=self._like, **options)))


def named(policies: Any) -> dict[str, Policy | Agent]:
    """Returns policies and agents by name; a name that is taken gets a number."""
    kinds, several = (Policy, Agent), isinstance(policies, (list, tuple))
    pairs = [(None, given) for given in (policies if several else [policies])]
    if isinstance(policies, dict) and any(isinstance(own, kinds) for own in policies.values()):
        pairs = [*policies.items()]
    judges = dict[str, Policy | Agent]()
    for name, given in pairs:
        is_path = isinstance(given, (str, Path)) and str(given) not in presets()
        if is_path and Path(given).is_file():
            judge: Policy | Agent = Agent.load(given)
            own = Path(given).name
        else:
            judge = given if isinstance(given, kinds) else build_policy(given)
            own = with_replaced(judge) if isinstance(judge, Policy) else "agent"
        names = chain([name or own], (f"{name or own}-{number}" for number in count(2)))
        judges[next(free for free in names if free not in {LOGGED, *judges})] = judge
    if not judges:
        raise FairbanditError("policies: expected a policy, an agent or a list of these")
    return judges
