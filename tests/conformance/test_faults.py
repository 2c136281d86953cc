"""Every mistake that the author of a part can make is caught, and the message names it."""

import random
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError, conformance
from fairbandit.conformance import ConformanceError, contract, leaving, playing
from fairbandit.environments import Environment, Pools
from fairbandit.metrics import Judged, Metric
from fairbandit.parts import (
    Argmax,
    Candidates,
    Division,
    EmpiricalCdf,
    Estimator,
    Full,
    Halves,
    LinearModel,
    Outcomes,
    Problem,
    Rank,
    Ridge,
)
from fairbandit.streams import Purpose
from tests import support

# Ranks.


class Score(Rank):
    """The score, a rank without a fault."""

    range = (-float("inf"), float("inf"))

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores


class Undrawn(EmpiricalCdf):
    """NaN for a group that the window lacks."""

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.past.count_le(candidates.scores) / candidates.past.count


class Falling(EmpiricalCdf):
    """The index falls as the score rises."""

    def _index(self, candidates: Candidates) -> Tensor:
        return 1 - super()._index(candidates)


class Placed(EmpiricalCdf):
    """An index by place."""

    def _index(self, candidates: Candidates) -> Tensor:
        return super()._index(candidates) * torch.tensor([1, 1, 1, 0.5, 0.5, 0.5])


class Inverted(EmpiricalCdf):
    """An upper index below the index."""

    def upper_index(self, index: Tensor, candidates: Candidates) -> Tensor:
        return index - 1


class Blockwise(Score):
    """Scores, less in blocks of more rounds."""

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores / len(candidates.rounds)


class Crowded(Score):
    """Scores above the mean of all replicas."""

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores - candidates.scores.mean(0)


class Peeking(Score):
    """Reads all rewards known, and says that it reads none."""

    needs = frozenset({"rewards"})

    def _index(self, candidates: Candidates) -> Tensor:
        rewards = candidates.outcomes(0, candidates.history.played).rewards
        return candidates.scores + rewards.sum(1)[:, None, None] * candidates.contexts[..., 0]


class Undeclared(Score):
    """Reads old rewards without declaring that it needs them."""

    def last_reward_read(self, t: int) -> int:
        return t - 1

    def _index(self, candidates: Candidates) -> Tensor:
        _, rewards = candidates.rewards(0, candidates.first - 1)
        return candidates.scores + rewards.sum(1)[:, None, None]


class Summing(Score):
    """Scores of contexts less the sum of all before, which is its state."""

    def last_reward_read(self, t: int) -> int:
        return t - 1

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        self._sum = problem.zeros(problem.replicas, problem.features)

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        self._sum = self._sum + contexts.sum((1, 2))

    def state(self) -> dict[str, Any]:
        return {"sum": self._sum}

    def _load(self, state: Any) -> None:
        self._sum = state["sum"]

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.own_model.score(
            candidates.contexts - self._sum[:, None, None], candidates.groups
        )


class Forgetful(Summing):
    """It remembers, and does not say so in its state."""

    def state(self) -> dict[str, Any]:
        return {}

    def _load(self, state: Any) -> None:
        pass


class Listing(Summing):
    """A state that is no tensor and no number."""

    def state(self) -> dict[str, Any]:
        return {"sum": self._sum.tolist()}


class Growing(Summing):
    """A state that gets a key with the first round that it observes."""

    def state(self) -> dict[str, Any]:
        return {"sum": self._sum} if bool(self._sum.any()) else {}


class Sharing(Summing):
    """It adds to the very tensor of the state that it loaded."""

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        self._sum += contexts.sum((1, 2))

    def state(self) -> dict[str, Any]:
        return {"sum": self._sum.clone()}


class Mislaying(Summing):
    """The sum is lost when a group appears."""

    def grow(self, problem: Problem) -> None:
        self.bind(problem)


class Hoarding(Score):
    """The last pools are halved when the next ones come."""

    _last = torch.zeros(0)

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        self._last.div_(2)
        self._last = contexts


class Reusing(Score):
    """Returns the same tensor every time."""

    def _index(self, candidates: Candidates) -> Tensor:
        shape = candidates.groups.shape
        buffers = self.__dict__.setdefault("_buffers", {})
        return buffers.setdefault(shape, candidates.scores.clone()).copy_(candidates.scores)


class Differentiable(Score):
    """The score times a weight that could be learned."""

    def _index(self, candidates: Candidates) -> Tensor:
        return torch.ones((), dtype=torch.float64, requires_grad=True) * candidates.scores


class Flipping(Score):
    """Changes the true reward model."""

    needs_truth = True

    def _index(self, candidates: Candidates) -> Tensor:
        assert self.problem.truth is not None
        return candidates.contexts @ self.problem.truth.linear_theta().neg_()


# Splits, estimators and selectors.


class Unsound(Halves):
    """A split that moves back."""

    def _divide(self, t: Tensor) -> Division:
        division = super()._divide(t)
        return division._replace(start=torch.where(t == 50, 0, division.start))


class Moving(Full):
    """Moves the rounds that it was asked about."""

    def _divide(self, t: Tensor) -> Division:
        return super()._divide(t.sub_(1).add(1))


class Shifted(Ridge):
    """Scores that are not those of its theta."""

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> LinearModel:
        return ShiftedModel(*super()._models(rounds, n_train, outcomes).parameters)


class ShiftedModel(LinearModel):
    """⟨θ, x⟩ + 1."""

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return super()._score(contexts, groups) + 1


class Losing(Ridge):
    """Rewards that come late are lost."""

    def absorb(self, n: int, outcomes: Outcomes) -> None:
        pass


class Centred(Estimator):
    """Centres the past rewards where they are kept."""

    needs = frozenset({"rewards"})

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> LinearModel:
        outcomes.rewards.sub_(outcomes.rewards.mean(1, keepdim=True))
        theta = (outcomes.contexts * outcomes.rewards[..., None]).mean(1, keepdim=True)
        return LinearModel(theta.expand(-1, len(n_train), -1))


class Masking(Argmax):
    """Masks the index that it was given."""

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        return super()._weights(candidates, index.masked_fill_(~candidates.present, -9))


# Environments and metrics.


class World(Environment):
    """One feature, uniform; one group; rewards without noise."""

    def __init__(self) -> None:
        self.features, self.places, self.group_names = 1, 2, ("all",)
        self.truth = None
        self._memory = torch.zeros(3, 256, 2, dtype=torch.float64)

    def _drawn(self, first: int, count: int) -> Tensor:
        return self.streams[Purpose.POOLS].uniform(first, count, 2)

    def _pools(self, first: int, count: int) -> Pools:
        x = self._drawn(first, count)
        return Pools(x[..., None], torch.zeros(x.shape, dtype=torch.int64), x, x, x)


class Halving(World):
    """Halves the random draws that it was given."""

    def _drawn(self, first: int, count: int) -> Tensor:
        return super()._drawn(first, count).mul_(0.5)


class Piecemeal(World):
    """Pools that depend on how many are asked for."""

    def _drawn(self, first: int, count: int) -> Tensor:
        return super()._drawn(first, count) / count


class Counting(Metric):
    """The number of rounds so far, a metric without a fault."""

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        self._count = problem.zeros(problem.replicas)

    def _values(self, judged: Judged) -> Tensor:
        values = self._count[:, None] + torch.ones_like(judged.propensities).cumsum(1)
        self._count = values[:, -1].clone()
        return values

    def state(self) -> dict[str, Any]:
        return {"count": self._count}

    def load_state(self, state: Any) -> None:
        self._count = state["count"]


class Lossy(Counting):
    """Counts, and forgets when it is resumed."""

    def load_state(self, state: Any) -> None:
        pass


class Unbound(Counting):
    """Counts on, whatever it is bound to."""

    def bind(self, problem: Problem) -> None:
        if not hasattr(self, "_count"):
            super().bind(problem)


class Joint(Metric):
    """Means over replicas."""

    def _values(self, judged: Judged) -> Tensor:
        return judged.propensities.mean(0).expand_as(judged.propensities).clone()


class Writing(Metric):
    """Writes into what it was given."""

    def _values(self, judged: Judged) -> Tensor:
        return judged.propensities.mul_(2)


FAULTS: dict[conformance.Check, list[tuple[str, type[Any], str]]] = {
    playing.plays: [("rank", Undrawn, "gave nan at replica")],
    contract.monotone: [("rank", Falling, "not monotone: in round ")],
    contract.permutes: [
        ("rank", Placed, "does more than permute their indices, as for the one from place")
    ],
    contract.ties: [("rank", Inverted, "`upper_index` must be as large as the index or larger")],
    contract.splits_soundly: [("split", Unsound, "`start` moves back after round 49")],
    contract.models_soundly: [("estimator", Shifted, "scores differ from ⟨theta, x⟩ by up to 1")],
    playing.repeats: [("metric", Unbound, "two runs under one seed give different results")],
    playing.rounds_alone: [
        ("rank", Blockwise, "rounds in blocks and one at a time give"),
        ("environment", Piecemeal, "rounds in blocks and one at a time give"),
    ],
    playing.replicas_alone: [
        ("rank", Crowded, "replica 0 in company and alone give"),
        ("metric", Joint, "replica 0 in company and alone give"),
    ],
    playing.reads_no_later: [("rank", Peeking, "changes with a reward later than that of round")],
    playing.learns_late: [("estimator", Losing, "after rewards that came late")],
    playing.resumes: [
        ("rank", Forgetful, "a run never stopped and one resumed from its state give different"),
        ("rank", Listing, "its state has a list under 'sum'"),
        ("rank", Growing, "had the keys [] after `bind` and has ['sum'] now"),
        ("rank", Undeclared, 'unless a part declares needs = frozenset({"rewards"})'),
        ("metric", Lossy, "a run never stopped and one resumed from its state give different"),
    ],
    playing.grows: [("rank", Mislaying, "a group known before and one that appears give")],
    leaving.leaves_all_as_found: [
        ("rank", Flipping, "`_index` changes `problem.truth.theta`, which it was given"),
        ("rank", Hoarding, "`observe` changes `contexts`, which it was given earlier"),
        ("rank", Sharing, "`observe` changes what `state` returned earlier"),
        ("rank", Reusing, "`_index` changes what `_index` returned earlier"),
        ("rank", Differentiable, "`_index` returns a tensor that requires grad"),
        ("estimator", Centred, "`_models` changes `outcomes.rewards`, which it was given"),
        ("selector", Masking, "`_weights` changes `candidates.index`, which it was given"),
        ("split", Moving, "`_divide` changes `t`, which it was given"),
        ("environment", Halving, "`_pools` changes `streams[POOLS].uniform(…)[0]`"),
        ("metric", Writing, "`_values` changes `judged.selection.propensities`"),
    ],
}
"""For each check what it catches: the kind, the class and the message."""

CASES = [(check, *fault) for check, faults in FAULTS.items() for fault in faults]


@pytest.mark.parametrize(("check", "kind", "cls", "message"), CASES)
def test_a_fault_is_caught(check, kind, cls, message, faulty):
    assert check in conformance.checks(kind)
    with pytest.raises(FairbanditError, match=re.escape(message)):
        check(kind, faulty(kind, cls))


@pytest.mark.parametrize(("kind", "cls"), [("rank", Summing), ("metric", Counting)])
def test_a_part_without_a_fault_passes(kind, cls, faulty):
    results = list(conformance.examine(kind, faulty(kind, cls)))
    assert [result.reason for result in results if not result.passed] == []
    assert len(results) == len(conformance.checks(kind))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("contexts", lambda given: given.contexts.numpy().fill(0)),
        ("contexts", lambda given: given.contexts.data.zero_()),
        ("contexts", lambda given: given.contexts.requires_grad_()),
        ("contexts", lambda given: given.contexts[:, :, 0].zero_()),
        ("groups", lambda given: given.groups.unsqueeze_(0)),
        ("scores", lambda given: given.scores.sub_(1)),
        ("division.stop", lambda given: given.division.stop.sub_(1)),
        ("model.parameters[0]", lambda given: given.model.theta.neg_()),
        ("upper_scores", lambda given: given.upper_scores.zero_()),
        ("past.count", lambda given: given.past.count.clamp_(min=1)),
        ("past.every.variance", lambda given: given.past.every.variance.zero_()),
        ("history.rewards", lambda given: given.rewards(0, given.first - 1)[1].abs_()),
        ("stream.uniform", lambda given: given.uniform().round_()),
    ],
)
@pytest.mark.parametrize("autograd", [True, False])
def test_however_a_tensor_is_changed(what, change, autograd, faulty, monkeypatch):
    class Changing(EmpiricalCdf):
        """Changes a tensor."""

        needs = frozenset({"contexts", "rewards"})

        def last_reward_read(self, t: int) -> int:
            return t - 1

        def _index(self, candidates: Candidates) -> Tensor:
            index = super()._index(candidates)
            change(candidates)
            return index

    monkeypatch.setattr(Changing, "autograd", autograd)  # if not, all happens in inference mode
    with pytest.raises(ConformanceError, match=rf"`_index` changes `candidates\.{re.escape(what)}"):
        leaving.leaves_all_as_found("rank", faulty("rank", Changing))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("torch's default dtype", lambda: torch.set_default_dtype(torch.float64)),
        ("torch's number of threads", lambda: torch.set_num_threads(1)),
        ("whether torch records gradients", lambda: torch.set_grad_enabled(False)),
        ("NumPy's handling of floating-point errors", lambda: np.seterr(invalid="ignore")),
        ("torch's global generator", lambda: torch.rand(3)),
        ("torch's global generator", lambda: torch.manual_seed(0)),
        ("NumPy's global generator", np.random.standard_normal),
        ("NumPy's global generator", lambda: np.random.seed(0)),  # noqa: NPY002
        ("Python's global generator", random.random),
    ],
)
@pytest.mark.parametrize("method", ["__init__", "_index"])
def test_settings_and_global_generators_are_watched_and_put_back(what, change, method, faulty):
    class Meddling(Score):
        """Meddles in a method."""

        def __init__(self) -> None:
            if method == "__init__":
                change()

        def _index(self, candidates: Candidates) -> Tensor:
            if method == "_index":
                change()
            return candidates.scores

    before = leaving._globals()
    with pytest.raises(ConformanceError, match=f"`{method}` changes {what}; expected"):
        leaving.leaves_all_as_found("rank", faulty("rank", Meddling))
    assert leaving._globals() == before


def test_the_tool_names_the_fault(command, clean, tmp_path, monkeypatch):
    """A failed check, the line of the plugin that raised an error, and what was not tried."""
    text = (support.REPOSITORY / "tests/plugins/broken/broken_nan.py").read_text()
    (tmp_path / "theirs.py").write_text(text.replace("scores)", "scores) * {}['bandwidth']"))
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(tmp_path))
    code, out, err = command("check", "rank=broken_nan")
    assert (code, err) == (1, "")
    line = 1 + text.split("\n").index(text.rstrip().split("\n")[-1])
    assert "✗ Plays some rounds without breaking" in out
    assert f"KeyError: 'bandwidth' (theirs.py:{line})" in out
    assert "– Gives for each of B replicas what it gives for that replica alone: not tried, " in out
