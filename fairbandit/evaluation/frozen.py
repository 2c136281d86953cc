"""Policies that are frozen, to be judged by decisions from which they have not learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.agent import Agent
from fairbandit.building import build_policy, presets
from fairbandit.errors import FairbanditError
from fairbandit.evaluation.direct import LinearModel
from fairbandit.evaluation.sums import Sums, evaluate_sums, merged
from fairbandit.logs import Floats, Log, read_pieces
from fairbandit.policy import Policy

if TYPE_CHECKING:
    import pandas as pd


class Frozen:
    """Policies that learned from some decisions, and a linear model of the mean reward.

    It can be sent to other processes, each of which sums up decisions of its own.

    Args:
        log: decisions from which policies learn; agents are as they are.
        policies: as `evaluate` takes them.
        seed: of the policies' draws.
        modelled: decisions to which the reward model is fitted; `log` by default.

    Raises:
        FairbanditError: no such policy, one that would have to learn from nothing, an agent of
            another number of features, or a log without contexts.
    """

    def __init__(
        self, log: Log, policies: Any, *, seed: int = 0, modelled: Log | None = None
    ) -> None:
        if log.contexts is None:
            raise FairbanditError(
                "the log leaves out the contexts, without which no policy decides"
            )
        self._like, self._features = log[:0] if log.encoder else None, log.features
        self._model = LinearModel(log if modelled is None else modelled)
        self._agents = {
            name: _frozen(name, policy, log, seed) for name, policy in named(policies).items()
        }

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

    def sums(self, log: Log, probabilities: Mapping[str, Floats] | None = None) -> dict[str, Sums]:
        """What each policy gives on some decisions, as sums.

        Args:
            log: the decisions.
            probabilities: what `probabilities` returned for them, if it was asked.
        """
        chances = self.probabilities(log) if probabilities is None else probabilities
        return {name: Sums.of(log, own, self._model) for name, own in chances.items()}

    def judge(self, path: str | PathLike[str], **options: Any) -> dict[str, Sums]:
        """What each policy gives on the decisions of a file or folder, which is read in pieces.

        Features of tables are encoded as those of the log from which the policies learned.

        Args:
            path, options: as for `read_pieces`.
        """
        return merged(map(self.sums, read_pieces(path, like=self._like, **options)))


def named(policies: Any) -> dict[str, Policy | Agent]:
    """Policies and agents by name; one whose name is taken gets a number."""
    own = isinstance(policies, dict) and policies.values()
    if own and all(isinstance(one, (Policy, Agent)) for one in own):
        return {str(name): one for name, one in policies.items()}
    found: dict[str, Policy | Agent] = {}
    for one in policies if isinstance(policies, (list, tuple)) else [policies]:
        made: Policy | Agent
        if isinstance(one, (Policy, Agent)):
            made, name = one, "agent" if isinstance(one, Agent) else one.name
        elif isinstance(one, (str, Path)) and str(one) not in presets() and Path(one).is_file():
            made, name = Agent.load(one), Path(one).name
        else:
            made = build_policy(one)
            name = made.name
        again = [f"{name}-{count}" for count in range(2, len(found) + 2)]
        found[next(each for each in (name, *again) if each not in found)] = made
    if not found:
        raise FairbanditError("policies: expected a policy, an agent or a list of these")
    return found


def _frozen(name: str, policy: Policy | Agent, log: Log, seed: int) -> Agent:
    assert log.contexts is not None
    d = log.contexts.shape[2]
    if isinstance(policy, Agent):
        if (own := policy._now.known.problem.features) != d:
            raise FairbanditError(f"{name} takes {own} features, and the log has {d}")
        return policy
    if len(log):
        return Agent.from_log(policy, log, seed=seed)
    if policy.estimator.learns:
        raise FairbanditError(f"{name} learns, and train=0 leaves nothing to learn from")
    return Agent(policy, features=d, groups=log.labels, seed=seed)


def evaluate_pieces(
    pieces: Iterable[Log],
    policies: Any,
    *,
    seed: int = 0,
    level: float = 0.95,
    reward_range: tuple[float, float] | None = None,
) -> pd.DataFrame:
    """Estimates rewards and selection rates of policies from a log that is larger than memory.

    The first piece trains the policies and the reward model of `dr`, and the others judge, so that
    nothing depends on later data.

    Args:
        pieces: at least two, as `read_pieces` gives them.
        policies: as for `evaluate`.
        seed: of the policies' draws.
        level, reward_range: as for `evaluate_sums`.

    Returns:
        The table of `evaluate_sums`.

    Raises:
        FairbanditError: as for `evaluate`.
    """
    every = iter(pieces)
    first = next(every, None)
    if first is None:
        raise FairbanditError("the log holds no decision")
    frozen = Frozen(first, policies, seed=seed)
    return evaluate_sums(merged(map(frozen.sums, every)), level=level, reward_range=reward_range)
