"""Every mistake that the author of a part can make is caught, and the message names it."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError, conformance, registry
from fairbandit.conformance import ConformanceError, relations, values
from fairbandit.environments import Pools
from fairbandit.estimators import LinearModel, State, Zero
from fairbandit.estimators.ties import Approximate
from fairbandit.history import Outcomes, Problem
from fairbandit.metrics import Judged, Metric
from fairbandit.ranks import EmpiricalCdf, OracleCdf, Scored
from fairbandit.selectors import Argmax, Ranked, Selection, best
from fairbandit.splits import Full, Halves
from fairbandit.splits.base import Ints
from fairbandit.streams import Purpose
from tests import support
from tests.conformance.parts import Averaging, Counting, Score, Sums, World, added

BROKEN = Path(__file__).parents[1] / "plugins" / "broken" / "broken_nan.py"


def but(base: type[Any], **members: Any) -> type[Any]:
    """A class with a fault."""
    return type("Faulty", (base,), {"__doc__": "It has a fault.", **members})


class Weighed(Score):
    """Keeps a hyperparameter as something else than it was given."""

    def __init__(self, *, weight: float = 1.0) -> None:
        self.weight = weight + 1


def peeking(self: Any, scored: Scored) -> Tensor:
    """Reads all rewards known, and does not declare it."""
    rewards = scored.outcomes.rewards.sum(1)[:, None, None]
    return scored.scores.value + rewards * scored.contexts[..., 0]


def printing(self: Any, scored: Scored) -> Tensor:
    """Prints."""
    print("here", scored.rounds)
    return scored.scores.value.clone()


def centred_at_once(self: Any, scored: Scored) -> Tensor:
    """Puts other contexts in the place of those that it was given."""
    scored.contexts = scored.contexts - 1
    return scored.scores.value.clone()


def moving_on(self: Any, scored: Scored) -> Tensor:
    """Changes an array of the plan."""
    scored.plan.rounds[:] += 1
    return scored.scores.value.clone()


def reusing(self: Any, scored: Scored) -> Tensor:
    """Returns the same tensor every time."""
    buffers = vars(self).setdefault("_buffers", {})
    scores = scored.scores.value
    return buffers.setdefault(scores.shape, scores.clone()).copy_(scores)


def placed(self: Any, scored: Scored) -> Tensor:
    """An index by place."""
    return EmpiricalCdf._share(self, scored) * torch.tensor([1, 1, 1, 0.5, 0.5, 0.5])


def without_slack(self: Any, scored: Scored) -> Approximate:
    """An index without the slack of the mean."""
    mean = scored.past.moments[0].nan_to_num()
    return Approximate(scored.scores.value - mean, scored.scores.slack)


def undrawn(self: Any, scored: Scored) -> Tensor:
    """NaN for a group that the window lacks."""
    return scored.past.count_le() / scored.past.count


def flipping(self: Any, scored: Scored) -> Tensor:
    """Changes the true reward model."""
    return scored.contexts @ scored.problem.truth.linear_theta().neg_()  # type: ignore[union-attr]


def far(self: Any, judged: Judged) -> Tensor:
    """Whether the pick is worse than most of its group; 0 where the ranks are unknown."""
    return (judged.gather_picks(judged.pools.ranks) < 0.5).double()


def falling_back(self: Any, t: Ints) -> Any:
    """A split that moves back."""
    division = Halves._divide(self, t)
    return division._replace(rank_start=np.where(t == 50, 0, division.rank_start))


def moving(self: Any, t: Ints) -> Any:
    """A split that changes the rounds it is asked about, and changes them back."""
    t -= 1
    return Full._divide(self, t + 1)


def weighing(self: Any, ranked: Ranked, picks: int) -> Tensor:
    """Adds to the index."""
    ranked.index.value.add_(1)
    return best(ranked.index, ranked.present, picks)


def doubling(self: Any, judged: Judged) -> Tensor:
    """Doubles the propensities."""
    return judged.selection.propensities.mul_(2)


def losing(self: Any, state: State, outcomes: Outcomes) -> State:
    """Outcomes of earlier rounds than those taken in are lost."""
    early = outcomes.n and int(outcomes.rounds[0]) < state.n.max()
    return state if early else Averaging._advance(self, state, outcomes)


def adding(self: Any, state: State, outcomes: Outcomes) -> State:
    """Adds to the state that it was given."""
    return Sums(state.sums.add_(added(state, outcomes)), state.n + outcomes.n)


def centred(
    self: Any, problem: Any, state: State, rounds: Any, n_train: Any, outcomes: Outcomes
) -> LinearModel:
    """Centres the past rewards where they are kept."""
    outcomes.rewards.sub_(outcomes.rewards.mean(1, keepdim=True))
    return Averaging._models(self, problem, state, rounds, n_train, outcomes)


def by_order(
    self: Any, problem: Any, state: State, rounds: Any, n_train: Any, outcomes: Outcomes
) -> LinearModel:
    """Later outcomes of a round count more."""
    _, x, g, r = outcomes
    products = (g >= 0)[..., None] * x * (r * torch.arange(1, 1 + outcomes.n))[..., None]
    return LinearModel(torch.stack([products[:, :n].sum(1) for n in outcomes.counts(n_train)], 1))


def without_a_model(self: Any, *given: Any) -> Tensor:
    """Returns θ in place of a model."""
    return Averaging._models(self, *given).parameters[0]


def without_an_axis(self: Any, *given: Any) -> LinearModel:
    """Lacks the axis of the models."""
    return LinearModel(Averaging._models(self, *given).parameters[0][:, 0])


def shifted(self: Any, *given: Any) -> LinearModel:
    """Scores that are not those of its theta."""
    model = but(LinearModel, _score=lambda self, x, g: LinearModel._score(self, x, g) + 1)
    return model(*Averaging._models(self, *given).parameters)


def world_with(cdf: Any) -> type[Any]:
    """A world with another CDF, at a reward."""
    return but(World, cdf=staticmethod(lambda groups, values, rounds: cdf(values)))


def pools_but(name: str, change: Any) -> Any:
    """`_pools` with something changed."""

    def pools(self: Any, first: int, count: int) -> Pools:
        parts = vars(World._pools(self, first, count))
        return Pools(**{**parts, name: change(parts[name])})

    return pools


def recycling(self: Any, first: int, count: int) -> Tensor:
    """Pools that are overwritten by the next ones."""
    drawn = World.drawn(self, first, count)
    return vars(self).setdefault(f"_memory_{count}", drawn).copy_(drawn)


def counting_on(self: Any, problem: Problem) -> Tensor:
    """Begins with the number of problems before."""
    self._problems = vars(self).get("_problems", -1) + 1
    return Counting.init(self, problem) + self._problems


def counting_slots(self: Any, state: State, outcomes: Outcomes) -> State:
    """Counts the empty slots of shortlists."""
    return Sums(state.sums + added(state, outcomes), state.n + outcomes.n)


def centring(self: Any, scored: Scored) -> Tensor:
    """A function of past scores that is not elementwise."""
    return scored.past.sum(lambda old: old - old.mean()) + scored.scores.value


def stating(change: Any) -> Any:
    """`select` with something changed."""

    def select(self: Any, ranked: Ranked, picks: int = 1) -> Selection:
        return change(Argmax.select(self, ranked, picks), ranked)

    return select


def uniform(selection: Selection, ranked: Ranked) -> Selection:
    """Says that it picks each candidate with the same probability."""
    present, m = ranked.present.double(), selection.actions.shape[2]
    shares = (m * present / present.sum(2, keepdim=True)).clamp(max=1)
    places = selection.actions.clamp(min=0)
    own = shares.gather(2, places).where(selection.actions >= 0, torch.nan)
    return Selection(selection.actions, own, shares)


def one_less(selection: Selection, ranked: Ranked) -> Selection:
    """Leaves the second slot empty."""
    actions = selection.actions.clone()
    actions[..., 1:2] = -1
    return selection._replace(
        actions=actions, propensities=selection.propensities.where(actions >= 0, torch.nan)
    )


def unsaid(selection: Selection, ranked: Ranked) -> Selection:
    """States half the probability of each pick."""
    return selection._replace(propensities=selection.propensities / 2)


def by_place(self: Any, ranked: Ranked, picks: int) -> Tensor:
    """The greatest indices, of which those that tie are taken by their place."""
    value = ranked.index.value.where(ranked.present, -torch.inf)
    first = value.sort(dim=2, descending=True, stable=True).indices[..., :picks]
    return torch.zeros_like(value).scatter(2, first, 1.0) * ranked.present


def without_ties(self: Any, ranked: Ranked, picks: int) -> Tensor:
    """The greatest indices as computed, whose slack is ignored."""
    return best(Approximate(ranked.index.value), ranked.present, picks)


class KeepingTheFirst(Metric):
    """Returns the sums after the first round of a block."""

    reference = "a fault"

    def _values(self, judged: Judged, sums: Tensor) -> tuple[Tensor, Tensor]:
        groups = torch.arange(judged.problem.groups)
        every = judged.total((judged.pools.groups[..., None] == groups).double()).cumsum(1)
        return (sums + every).amax(2), (sums + every)[:, :1]

    def init(self, problem: Problem) -> Tensor:
        return problem.zeros(problem.replicas, 1, problem.groups)


def of_the_first(self: Any, judged: Judged) -> Tensor:
    """The reward of the first pick."""
    first = judged.selection.actions.view(*judged.selection.actions.shape[:2], -1)[..., :1]
    return judged.pools.expected.gather(2, first)[..., 0]


BLOCKS = "rounds in blocks and one at a time give different results"
ALONE = "a replica in company and alone give different results"
LATE = "rewards that come late and in time give different results"
CHANCE = "drawn true rewards, which by chance has probability"

FAULTS: dict[conformance.Check, list[tuple[type[Any], str]]] = {
    relations.can_be_built_from_its_name_and_its_description: [
        (but(Score, __doc__=None), "the class lacks a docstring"),
        (Weighed, "a part built from its own description differs"),
    ],
    relations.plays_one_to_three_picks: [
        (but(EmpiricalCdf, _index=undrawn), "gave an index of nan at replica"),
        (
            but(
                Score,
                _index=lambda self, given: Approximate(given.scores.value, -given.scores.slack),
            ),
            "gave a slack below 0",
        ),
        (
            but(Score, _index=lambda self, given: 2 * given.scores),
            "expected a tensor, or App",
        ),
        (but(Full, _divide=lambda self, t: (t, 0 * t, 0 * t)), "expected 0 ≤ n_train < 1"),
        (but(Score, _index=flipping), "'NoneType' object has no attribute"),
        (but(Score, needs="contexts"), "declares needs = 'contexts'; expected a set of words"),
        (but(Averaging, _models=without_a_model), "expected a reward model, such as LinearModel"),
        (but(Averaging, _models=without_an_axis), "expected the shape (B, U, …) with U = 1"),
        (but(OracleCdf, needs=frozenset()), ""),
    ],
    relations.changes_nothing_but_what_it_returns: [
        (
            but(Score, needs=frozenset({"truth"}), _index=flipping),
            "`_index` changes `scored.problem.truth.theta`",
        ),
        (but(Score, _index=reusing), "playing changes the part's attributes from {} to"),
        (but(Counting, init=counting_on), "playing changes the part's attributes from {} to"),
        (but(Score, _index=printing), "`_index` prints 'here"),
        (but(Score, _index=centred_at_once), "`_index` changes `scored.contexts`, which"),
        (but(Score, _index=moving_on), "`_index` changes `scored.rounds`, which"),
        (but(Averaging, _advance=adding), "`_advance` changes `state.sums`, which"),
        (but(Averaging, _models=centred), "`_models` changes `outcomes.rewards`"),
        (but(Argmax, _inclusion=weighing), "`_inclusion` changes `ranked.index.value`"),
        (but(Full, _divide=moving), "`_divide` changes `t`, which it was given"),
        (but(Metric, _values=doubling), "`_values` changes `judged.selection.propensities`"),
    ],
    relations.gives_a_replica_the_same_results_alone_and_in_company: [
        (
            but(Score, _index=lambda self, given: given.scores.value - given.scores.value.mean(0)),
            ALONE,
        ),
        (
            but(
                Metric,
                _values=lambda self, j: j.selection.actions.sum() + 0 * j.selection.propensities,
            ),
            ALONE,
        ),
        (but(Score, needs=frozenset({"contexts"}), _index=centring), ALONE),
    ],
    relations.gives_a_round_the_same_results_alone_and_in_a_block: [
        (but(Score, _index=lambda self, given: given.scores.value / len(given.rounds)), BLOCKS),
        (but(World, drawn=lambda self, t, n: World.drawn(self, t, n) / n), BLOCKS),
        (but(World, drawn=recycling), BLOCKS),
        (KeepingTheFirst, f"{BLOCKS}: metric differs at replica 0, round 8"),
    ],
    relations.continues_from_its_saved_state: [
        (
            but(Zero, init=lambda self, problem: np.float64(0)),
            "state cannot be saved: expected tensors, numbers",
        ),
    ],
    relations.counts_late_rewards_like_those_in_time: [
        (but(Averaging, _advance=losing), LATE),
        (but(Averaging, needs=frozenset({"rewards"}), _models=by_order), f"for 3 picks, {LATE}"),
    ],
    relations.accepts_a_group_that_comes_later: [
        (
            but(Averaging, grow=lambda self, state, problem: self.init(problem)),
            "a group that comes late and in time give different results",
        ),
    ],
    relations.reads_no_reward_after_the_last_that_it_declares: [
        (
            but(Score, _index=peeking),
            "rewards that differ after round 5, the last that the policy declares, give different",
        ),
    ],
    relations.ignores_slots_that_stay_empty: [
        (but(Averaging, _advance=counting_slots), "score differs at replica")
    ],
    values.gives_a_candidate_the_same_probability_at_any_place: [
        (but(Argmax, _inclusion=by_place), "with 1 picks, a probability depends on the place"),
        (but(Argmax, _inclusion=without_ties), "a probability depends on the place, or on how ind"),
    ],
    values.picks_with_the_probabilities_that_it_states: [
        (but(Argmax, select=stating(uniform)), "contradict their probabilities at place in the"),
        (
            but(Argmax, select=stating(one_less)),
            "with 2 picks, the picks from 480 pools",
        ),
        (but(Argmax, select=stating(unsaid)), "a propensity is not the probability of the place"),
    ],
    values.judges_all_picks_if_it_judges_the_first: [
        (but(Metric, _values=of_the_first), "the values change with the first of three picks"),
    ],
    values.reads_no_truth_unless_it_declares_needs_truth: [
        (
            but(Metric, _values=far),
            "known and unknown true rewards and ranks (declare needs_truth = True)",
        ),
    ],
    values.divides_later_rounds_no_earlier: [
        (but(Halves, _divide=falling_back), "`rank_start` decreases at round 50: before")
    ],
    values.gives_finite_scores_which_are_linear_if_it_has_a_theta: [
        (but(Averaging, _models=shifted), "scores differ from ⟨theta, x⟩")
    ],
    values.gives_a_candidate_the_same_index_in_any_pool: [
        (but(EmpiricalCdf, _index=placed), "does more than permute indices"),
        (
            but(
                Score,
                _index=lambda self, given: given.scores.value - given.scores.value.mean(2, True),
            ),
            "the index depends on the other candidates of the pool",
        ),
    ],
    values.gives_a_higher_score_no_lower_index_within_a_group: [
        (but(Score, _index=lambda self, given: -given.scores.value), "not monotone")
    ],
    values.ties_equal_candidates_of_groups_with_the_same_past: [
        (
            but(Score, needs=frozenset({"contexts"}), _index=without_slack),
            "equal candidates do not tie",
        )
    ],
    values.draws_the_rewards_and_ranks_of_its_truth: [
        (
            but(World, _pools=pools_but("expected", lambda x: 2 * x)),
            "true rewards that are not the truth's",
        ),
        (
            but(World, _pools=pools_but("ranks", lambda x: 1 - x)),
            "that differs from the truth's CDF",
        ),
    ],
    values.has_distributions_that_fit_the_rewards_that_it_draws: [
        (world_with(lambda x: 1 - x.clamp(0, 1)), "the CDF of group 0 decreases"),
        (world_with(lambda x: x.clamp(0, 1) ** 1.5), CHANCE),
    ],
}
"""For each check what it catches: the class and the message."""

CASES = [(check, *fault) for check, faults in FAULTS.items() for fault in faults]


def kind_of(cls: type[Any]) -> str:
    """The kind of part that a class is."""
    return next(kind for kind in registry.KINDS if issubclass(cls, registry.base_of(kind)))


@pytest.mark.parametrize(("check", "cls", "message"), CASES)
def test_a_fault_is_caught(check, cls, message, faulty):
    kind = kind_of(cls)
    assert check in conformance.checks(kind)
    errors = FairbanditError, AttributeError, AssertionError  # the last two for a truth of None
    with pytest.raises(errors) as caught:
        check(kind, faulty(kind, cls))
    assert message in str(caught.value)


def test_every_check_catches_something():
    assert FAULTS.keys() == {c for kind in registry.KINDS for c in conformance.checks(kind)}


@pytest.mark.parametrize("cls", support.some([Counting, Averaging, World, Score], 2))
def test_a_part_without_a_fault_passes(cls, faulty):
    kind = kind_of(cls)
    results = list(conformance.examine(kind, faulty(kind, cls)))
    assert [result.reason for result in results if result.reason] == []
    assert len(results) == len(conformance.checks(kind))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("contexts", lambda given: given.contexts.data.zero_()),
        ("contexts", lambda given: given.contexts[:, :, 0].mul_(1)),
        ("groups", lambda given: given.groups.unsqueeze_(0)),
        ("rank_window[1]", lambda given: given.rank_window[1].sub_(1)),
        ("past.count", lambda given: given.past.count.clamp_(min=1)),
        ("outcomes.rewards", lambda given: given.outcomes.rewards.abs_()),
        (
            "problem.streams[RANK].uniform",
            lambda given: (
                given.problem.streams[Purpose.RANK].uniform(int(given.rounds[0]), 1, 2).round_()
            ),
        ),
    ],
)
def test_however_a_tensor_is_changed(what, change, faulty):
    def index(self: Any, scored: Scored) -> Tensor:
        kept = scored.scores.value.clone()
        change(scored)
        return kept

    needs = frozenset({"contexts", "rewards"})
    cls = but(Score, needs=needs, _index=index)
    with pytest.raises(ConformanceError, match=rf"`_index` changes `scored\.{re.escape(what)}"):
        relations.changes_nothing_but_what_it_returns("rank", faulty("rank", cls))


@pytest.mark.parametrize(
    ("method", "what", "change"),
    [
        ("__init__", "torch's default dtype", lambda: torch.set_default_dtype(torch.float64)),
        ("_index", "torch's number of threads", lambda: torch.set_num_threads(1)),
        ("__init__", "NumPy's handling of floating", lambda: np.seterr(invalid="ignore")),
        ("_index", "torch's global generator", lambda: torch.rand(3)),
        ("__init__", "NumPy's global generator", np.random.standard_normal),
        ("_index", "Python's global generator", random.random),
    ],
)
def test_settings_and_global_generators_are_watched_and_put_back(method, what, change, faulty):
    faults = {
        "__init__": lambda self: [change(), None][1],
        "_index": lambda self, given: [change(), given.scores.value.clone()][1],
    }
    before = relations.contents({})
    with pytest.raises(ConformanceError, match=f"`{method}` changes {what}.*; expected"):
        relations.changes_nothing_but_what_it_returns(
            "rank", faulty("rank", but(Score, **{method: faults[method]}))
        )
    assert relations.contents({}) == before


def test_the_tool_and_the_command_name_the_line_of_a_plugin(command, clean, tmp_path, monkeypatch):
    """A failed check names the line that raised an error, and is the last one; so does a run."""
    text = BROKEN.read_text()
    file = tmp_path / "theirs.py"
    file.write_text(text.replace("count_le()", "count_le() * {}['bandwidth']"))
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(tmp_path))
    line = 1 + text.split("\n").index(text.rstrip().split("\n")[-1])
    message = f"KeyError: 'bandwidth' ({file}:{line})"
    code, out, err = command("check", "rank=broken_nan")
    assert (code, err) == (1, "")
    assert "✗ Plays one to three picks: " in out
    assert message in out
    assert "Changes nothing" not in out
    code, _, err = command("policy=fair_greedy", "policy/rank=broken_nan", "rounds=9")
    assert code == 1
    assert err.splitlines()[-1] == f"fairbandit: error: {message}; HYDRA_FULL_ERROR=1 shows more"


def test_where_a_check_does_not_apply_a_dash_stands(command):
    code, out, _ = command("check", "metric=welfare")
    assert code == 0
    assert "– Reads no truth unless it declares needs truth: does not apply, since it decl" in out
    assert f"{len(conformance.checks('metric')) - out.count('–')} of" in out
