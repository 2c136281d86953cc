"""Whether a policy reads the group: by its definition, by whole runs, and by features."""

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Encoder, build, register
from fairbandit.conformance import reads_group
from fairbandit.conformance.group import NO, THROUGH, YES, answer, part_answer
from fairbandit.environments import Table
from fairbandit.errors import FairbanditError
from fairbandit.policy.build import named_policies
from fairbandit.runs.separation import holds_group
from fairbandit.selectors import Selector
from fairbandit.selectors.base import best
from fairbandit.streams import Streams

READERS = {
    # their index is a rank among the group's contexts, or under the group's CDF
    *("fair_greedy", "fair_greedy_oracle_cdf", "fair_greedy_oracle_rewards", "gmf"),
    *("fairx_rank", "forgetting_greedy", "order_greedy", "order_scores", "fair_rolling"),
    "rank_interval_chain",
    *("minimum_pull", "group_parity", "fa_ir"),  # their selector counts groups
    "secretary_by_group",  # compares within groups
}
BY_FEATURES = {  # a score of the features decides, in the pool or among all past candidates
    *("greedy", "epsilon_greedy", "oful", "lin_ts", "optimal", "fairx_lints", "interval_chain"),
    *("rolling_greedy", "secretary", "debiased"),
}
RIDGE = {"split": "full", "estimator": "ridge", "rank": "identity"}


def test_every_named_policy_has_an_expected_answer():
    assert {*named_policies()} == READERS | BY_FEATURES | {"uniform"}


@pytest.mark.parametrize("name", [*named_policies()])
def test_named_policies_are_answered_by_their_definition(name):
    for groups in (2, 5):
        assert reads_group(name, groups=groups) == (name in READERS)
        assert reads_group(name, feature=True, groups=groups) == (name != "uniform")


@register("selector", "late_quota")
class LateQuota(Selector):
    """The best candidate of a group without picks, but only after 500 rounds."""

    needs = frozenset({"picks"})

    def _inclusion(self, ranked, picks):
        unpicked = ranked.pick_counts.gather(2, ranked.groups.clamp(min=0)) == 0
        due = unpicked & ranked.present & (ranked.scored.rounds[:, None] > 500)
        return best(ranked.index, due | (ranked.present & ~due.any(2, keepdim=True)), picks)


@register("selector", "one_of_each")
class OneOfEach(Selector):
    """The best candidate; with several picks, those of the group of least code come first."""

    def _inclusion(self, ranked, picks):
        present = ranked.present.to(torch.float64)
        least = ranked.groups.where(ranked.present, ranked.problem.groups).amin(2, keepdim=True)
        first = present * (ranked.groups == least) * (picks > 1)
        preferred = best(ranked.index, first, first.sum(2, keepdim=True).clamp(max=picks))
        return preferred + best(
            ranked.index, present - preferred, picks - preferred.sum(2, keepdim=True)
        )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({**RIDGE, "selector": "late_quota"}, YES),
        ({**RIDGE, "selector": "one_of_each"}, YES),
        ({**RIDGE, "selector": {"name": "minimum_pull", "shares": 0.05, "tolerance": 10}}, YES),
        ({**RIDGE, "selector": {"name": "minimum_pull", "shares": 0.0}}, THROUGH),
        ({**RIDGE, "selector": {"name": "epsilon_greedy", "epsilon": 1.0}}, NO),
        ({**RIDGE, "estimator": "group_ridge"}, YES),
        ({**RIDGE, "estimator": "normal_scores", "refresh": 1.2}, THROUGH),  # learns within groups
        ({**RIDGE, "rank": {"name": "tradeoff", "alpha": 1.0}}, THROUGH),  # all for the reward
        ({**RIDGE, "rank": {"name": "tradeoff", "alpha": 0.9}}, YES),
        ({**RIDGE, "estimator": "zero", "rank": "empirical_cdf"}, YES),  # but not if unseen
    ],
)
def test_compositions(policy, expected):
    assert answer(policy) == expected


def test_a_policy_that_cannot_be_played_gives_the_reason():
    why = answer("no_such_policy")
    assert why.startswith("not known, since the policy cannot be played here (FairbanditError: ")
    assert "no_such_policy" in why


def test_parts_are_answered_beside_parts_that_do_not_read_groups():
    found = {part_answer("rank", rank) for rank in ("empirical_cdf", "shrunk_cdf", "interval_cdf")}
    assert found == {YES}
    assert part_answer("rank", "pooled_cdf") == part_answer("selector", "chain") == THROUGH
    assert part_answer("estimator", "pairwise_probit") == THROUGH
    assert part_answer("selector", {"name": "group_parity", "chance": "pool"}) == YES


def test_shares_for_two_groups_are_played_with_two():
    policy = {**RIDGE, "selector": {"name": "minimum_pull", "shares": [0.3, 0.6]}}
    assert answer(policy, groups=2) == YES
    with pytest.raises(FairbanditError, match="shares"):
        reads_group(policy)
    assert answer(policy).startswith("not known")


def rows(n: int = 200) -> dict[str, Any]:
    draw = np.random.default_rng(1)
    people: dict[str, Any] = {"age": draw.integers(18, 70, n), "hours": draw.integers(0, 60, n)}
    people |= {"sex": draw.choice(["f", "m"], n), "town": draw.choice(["x", "y"], n)}
    people["pay"] = people["hours"] + 5 * (people["sex"] == "f") + draw.normal(size=n)
    return {name: column.tolist() for name, column in people.items()}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"group": "sex"}, True),
        ({"group": "sex", "group_feature": False}, False),
        ({"group": ["sex", "town"], "exclude": ["sex"]}, True),  # half of the group
        ({"group": ["sex", "town"], "exclude": ["sex", "town"]}, False),
    ],
)
def test_the_features_of_a_table_hold_the_group_or_not(parameters, expected):
    table = rows()
    world = Table.from_data(table, reward="pay", **parameters)
    codes, groups = world.members.contexts.numpy(), world.members.groups.numpy()
    assert holds_group(codes, groups) is expected
    if parameters["group"] == "sex":  # by definition: other cells of the group, other features
        encoder = Encoder.from_table(table, reward="pay", **parameters)
        swapped = table | {"sex": ["f" if one == "m" else "m" for one in table["sex"]]}
        assert bool((encoder.encode(table) != encoder.encode(swapped)).any()) is expected


@pytest.mark.parametrize("name", ["simulation", "synthetic", "arrivals"])
def test_environments_whose_features_hold_the_group(name):
    world: Any = build({"name": name})
    with world.bound(Streams(0, [0])):
        pools = world.pools(1, 40)
    assert holds_group(pools.contexts[0].flatten(0, 1).numpy(), pools.groups.flatten().numpy())


def test_features_of_users_that_hold_the_group():
    draw = np.random.default_rng(0)
    age, sex = draw.normal(size=400), draw.integers(0, 2, 400)
    both = np.stack([age, sex, age * sex], 1)
    assert holds_group(both[:, [0, 2]], sex)  # the product alone
    assert holds_group(age[:, None], np.digitize(age, [-1, 0, 1]))  # groups cut from a feature
    noisy = sex + draw.normal(scale=0.5, size=400)  # a proxy, which is not the group
    assert not holds_group(np.stack([age, noisy], 1), sex)
    assert holds_group(both[:30], sex[:30]) is None
    assert holds_group(both, np.zeros(400, np.int64)) is None


@pytest.mark.parametrize("alpha", [0.98, 0.999])
def test_a_small_weight_of_the_rank_within_groups_is_found(alpha):
    policy = {"name": "fair_greedy", "rank": {"name": "tradeoff", "alpha": alpha}}
    assert answer(policy) == YES
    assert answer({**policy, "rank": {"name": "tradeoff", "alpha": 1.0}}) == THROUGH
