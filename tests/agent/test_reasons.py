"""Why a candidate has its score, and what makes its pick certain, confirmed by playing it."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit import Agent, Encoder, FairbanditError
from fairbandit.agent import explain
from fairbandit.notices import noted

DRAW = np.random.default_rng(3)

ROWS = [
    {"sex": "fm"[i % 2], "age": 20.5 + i % 41, "hours": 5.5 + i % 37, "job": "abc"[i % 3], "pay": 0}
    for i in range(120)
]
for each in ROWS:
    each["pay"] = 3 * each["hours"] - 0.5 * each["age"] + 9 * (each["job"] == "b")  # type: ignore[operator]

POOL = [ROWS[i] for i in (1, 8, 15, 39, 70)]


def rows_of(pool: Any) -> list[Any]:
    return [row["sex"] for row in pool]


def experienced(policy: Any, rounds: int = 60, **options: Any) -> tuple[Agent, list[Any]]:
    """An agent that has learned from raw rows, and its pools."""
    encoder = Encoder.from_table(
        {key: [row[key] for row in ROWS] for key in ROWS[0]}, group="sex", reward="pay"
    )
    agent = Agent.from_config(policy, features=encoder, groups=["f", "m"], seed=0, **options)
    draw, pools = np.random.default_rng(1), []
    for _ in range(rounds):
        pools.append([ROWS[i] for i in draw.integers(0, 120, 5)])
        decision = agent.act(pools[-1], rows_of(pools[-1]))
        agent.update(pools[-1][decision.candidate]["pay"], decision.ticket)
    return agent, pools


def test_reasons_add_up_to_the_score_less_the_mean_past_score_of_the_group():
    agent, pools = experienced("fair_greedy")
    found = agent.explain(POOL, rows_of(POOL))
    assert agent.encoder is not None
    assert found.theta is not None
    assert found.past_count is not None
    window = pools[30:60]
    for place, row in enumerate(POOL):
        past = [other for pool in window for other in pool if other["sex"] == row["sex"]]
        assert len(past) == found.past_count[place]
        mean = float((agent.encoder.encode(past) @ found.theta.numpy()).mean())
        table = found.reasons(place).set_index("feature")
        total = table.contribution.sum()
        assert total == pytest.approx(float(found.scores[place]) - mean, abs=1e-9)
        assert set(table.index) == {"age", "hours", "job", "sex", "bias"}
        assert table.contribution.is_monotonic_increasing
        assert dict(table.value[["age", "job", "sex"]]) == {
            key: row[key] for key in ("age", "job", "sex")
        }
        assert table.loc["age", "mean"] == pytest.approx(np.mean([other["age"] for other in past]))
        of_job = [name.startswith("job=") for name in agent.encoder.names]
        theta, x = found.theta.numpy()[of_job], agent.encoder.encode([row])[0, of_job]
        by_hand = theta @ (x - agent.encoder.encode(past)[:, of_job].mean(0))
        assert table.loc["job", "contribution"] == pytest.approx(by_hand, abs=1e-9)


EXPLORES = {"name": "fair_greedy", "selector": {"name": "epsilon_greedy", "epsilon": 0.2}}


@pytest.mark.parametrize(
    ("policy", "picks", "most"),
    [
        *(("fair_greedy", 1, 1.0), ("fair_greedy", 2, 1.0), ("greedy", 2, 1.0), ("oful", 1, 1.0)),
        (EXPLORES, 1, 0.84),
    ],
)
def test_a_needed_value_suffices_and_a_hair_less_does_not(policy, picks, most):
    agent, _ = experienced(policy)
    groups = rows_of(POOL)
    found, reached, listed = agent.explain(POOL, groups, picks), set(), set()
    for place in range(len(POOL)):
        needed = found.needed(place)
        assert list(needed.features.feature) == ["age", "hours", "job"]
        *numbers, (_, _, job, codes) = needed.features.itertuples()
        assert job == POOL[place]["job"]
        for code in {*"abc"} - {job}:
            pool = [dict(other) for other in POOL]
            pool[place]["job"] = code
            again = agent.explain(pool, groups, picks).probabilities[place]
            assert (float(again) == pytest.approx(most)) == (code in str(codes).split(", "))
            listed.add(code in str(codes).split(", "))
        for row in numbers:
            _, feature, present, sufficient = row
            if np.isnan(sufficient):
                continue
            is_choice = float(found.probabilities[place]) == pytest.approx(most)
            assert row._fields[-1] == ("keeps" if is_choice else "needed")
            reached.add(is_choice)
            assert 5 <= sufficient <= 61
            end = np.inf * (sufficient - present) if is_choice else present
            for value, right in ((sufficient, 1), (np.nextafter(sufficient, end), 0)):
                pool = [dict(other) for other in POOL]
                pool[place][feature] = value
                again = agent.explain(pool, groups, picks).probabilities[place]
                assert (float(again) == pytest.approx(most)) == right
    assert reached == listed == {False, True}


def test_the_needed_score_is_just_above_the_best_of_the_others():
    agent, pools = experienced("greedy")
    found = agent.explain(POOL, rows_of(POOL))
    best, place = float(found.scores.max()), int(found.scores.argmin())
    second = float(found.scores.sort().values[-2])
    for candidate, other in ((place, best), (int(found.scores.argmax()), second)):
        score, rank, _, why = found.needed(candidate)
        assert score is not None
        assert score > other
        assert score == pytest.approx(other, rel=1e-8)
        assert rank is None
        assert why == ""
    agent, pools = experienced("fair_greedy")
    found = agent.explain(POOL, rows_of(POOL))
    assert agent.encoder is not None
    assert found.theta is not None
    place = int(found.index.argmin())
    needed = found.needed(place)
    past = [row for pool in pools[30:60] for row in pool if row["sex"] == POOL[place]["sex"]]
    scores = np.sort(agent.encoder.encode(past) @ found.theta.numpy())
    ranks = (np.arange(len(scores)) + 1) / len(scores)
    first = int((ranks > float(found.index.max()) + 1e-9).argmax())  # ties would be broken
    assert needed.rank == pytest.approx(ranks[first])
    assert needed.score == pytest.approx(scores[first], abs=1e-6)


def test_arrays_have_numbered_features_and_no_range():
    agent = Agent.from_config("fair_greedy", features=2, groups=["a"], seed=0)
    for _ in range(40):
        pool = DRAW.normal(size=(4, 2))
        agent.update(pool[agent.act(pool, ["a"] * 4).candidate] @ [1.0, 3.0])
    pool = np.array([[0.0, 0.0], [0.5, 0.5], [-9.0, 0.1]])
    found = agent.explain(pool, ["a"] * 3)
    assert set(found.reasons(2).feature) == {"x0", "x1"}
    features = found.needed(2).features.set_index("feature")
    assert features.needed["x0"] > 1.4
    tied = agent.explain([[99.0, 99.0], [0.0, 0.0]], ["a"] * 2)
    assert tied.needed(1).score is None
    assert "'Others already have the highest possible index, so" in str(tied.needed(1))
    best = found.needed(int(found.probabilities.argmax())).features
    assert (best.keeps < best.value).all()
    frame = found.to_frame()
    assert list(frame) == str(found).split("\n")[0].split()
    assert frame.score.tolist() == found.scores.tolist()


PEOPLE = pd.DataFrame(
    {
        "sex": ["f", "m", "f"] * 40,
        "age": [*range(30, 51), *range(31, 50)] * 3,  # the mean is 40
        "member": [True, False, False, True] * 30,
        "hours": [9.5 + i % 37 for i in range(120)],
        "job": ["a", "b", "b"] * 40,
    }
)


GAPS: list[dict[str, Any]] = [
    {"sex": "f", "age": 40, "member": False, "hours": 29.999999999999996, "job": "a"},
    {"sex": "male", "age": None, "member": True, "hours": 0.1 + 0.2, "job": "b"},
    {"sex": "f", "age": 44, "member": None, "hours": None, "job": None},
    {"sex": "m", "age": 33.5, "member": True, "hours": 12, "job": "c"},
]


def with_gaps(policy: str, **options: Any) -> Agent:
    """An agent that has learned from rows with and without missing cells and unknown codes."""
    table = PEOPLE.assign(pay=3.0 * PEOPLE.age + 20 * PEOPLE.member + PEOPLE.hours)
    names = {"group": "sex", "reward": "pay", "missing": "mean", "products": [["age", "hours"]]}
    agent = Agent.from_config(policy, features=Encoder.from_table(table, **names), **options)
    people = pd.concat([table, pd.DataFrame(5 * GAPS).assign(pay=150.0)])
    people = people.sample(frac=1, random_state=0)
    agent.observe(people, rewards=people["pay"])
    return agent


def test_missing_cells_and_rounding_are_not_shown_as_values(tmp_path):
    agent = with_gaps("fair_greedy", log=tmp_path / "log.jsonl")
    found = agent.explain(GAPS)
    tables = [found.reasons(place) for place in range(4)]
    keys = ["sex", "age", "member", "hours", "job", "age × hours"]
    assert [[str(own.set_index("feature").value[key]) for key in keys] for own in tables] == [
        ["f", "40.0", "0.0", "30.0", "a", "40.0 × 30.0"],
        ["None", "nan", "1.0", "0.3", "b", "nan × 0.3"],
        ["f", "44.0", "nan", "nan", "None", "44.0 × nan"],
        ["m", "33.5", "1.0", "12.0", "None", "33.5 × 12.0"],
    ]
    assert all(own.set_index("feature")["mean"].notna()["age"] for own in tables)
    agent.act(GAPS)
    logged = explain(tmp_path / "log.jsonl", agent.rounds)
    assert all(logged.reasons(place).equals(own) for place, own in enumerate(tables))
    assert logged.needed(1).features.equals(found.needed(1).features)
    assert agent.encoder is not None
    of_numbers = agent.explain(agent.encoder.encode(GAPS), [row["sex"] for row in GAPS])
    with noted() as notes:
        age = of_numbers.reasons(1).set_index("feature").value["age"]
    assert age == pytest.approx(PEOPLE.age.mean())
    assert notes[0].startswith("'age': the mean of the encoder's table also stands for a missing")


def test_whole_numbers_are_needed_where_the_table_has_whole_numbers():
    """Brute force over all whole numbers of the range finds the same."""
    agent, cases = with_gaps("greedy"), set()
    for ages, members in (([44, 40, None], [True, None, True]), ([None, 38], [None, False])):
        pool = PEOPLE.iloc[: len(ages)].assign(age=ages, member=members, hours=20.0).astype(object)
        pool = pool.where(pool.notna(), None)
        found = agent.explain(pool)
        for place, (column, span) in product(
            range(len(ages)), [("age", range(30, 51)), ("member", range(2))]
        ):
            sure, value = bool(found.probabilities[place] == 1), pool.loc[place, column]
            start = PEOPLE[column].mean() if value is None else value
            changed = []
            for other in span:
                again = pool.copy()
                again.loc[place, column] = other
                if (agent.explain(again).probabilities[place] == 1) != sure:
                    changed.append(other)
            right = min(changed, key=lambda other: abs(other - start), default=np.nan)
            right -= sure * np.sign(right - start)  # the last before the first that changes it
            features = found.needed(place).features.set_index("feature")
            np.testing.assert_equal(features.loc[column, "keeps" if sure else "needed"], right)
            cases.add((column, sure, value is None, bool(changed)))
    both = False, True
    assert cases >= {
        *product(["age"], both, both, [True]),
        *product(["member"], both, [False], [True]),
    }


@pytest.mark.parametrize(
    ("policy", "rounds", "message"),
    [
        ("oful", 30, "linear in the features"),
        ("greedy", 30, "past contexts"),
        ("fair_greedy", 0, "past contexts"),
    ],
)
def test_without_linear_scores_or_a_past_there_are_no_reasons(policy, rounds, message):
    agent, _ = experienced(policy, rounds)
    found = agent.explain(POOL, rows_of(POOL))
    with pytest.raises(FairbanditError, match=message):
        found.reasons(0)
    with pytest.raises(FairbanditError, match="the pool has 5, got 5"):
        found.needed(5)
    if not rounds:
        score, rank, features, why = found.needed(0)
        assert score is rank is None
        assert features.needed.isna().all()
        assert why == "All weights of the model are 0."


def test_a_logged_decision_is_explained_as_it_was_then(tmp_path):
    agent, pools = experienced("fair_greedy", 30, log=tmp_path / "log.jsonl")
    twin, _ = experienced("fair_greedy", 16)
    found = explain(tmp_path / "log.jsonl", 17)
    asked = twin.explain(pools[16], rows_of(pools[16]))
    assert str(replace(found, picked=None)) == str(asked)
    picked = twin.act(pools[16], rows_of(pools[16])).candidate
    assert found.to_frame().picked.tolist() == [place == picked for place in range(5)]
    assert found.reasons(3).equals(asked.reasons(3))
    with pytest.raises(FairbanditError, match="lacks a decision of ticket 31"):
        explain(tmp_path / "log.jsonl", 31)
    agent.save(tmp_path / "agent.pt")
    again = Agent.load(tmp_path / "agent.pt")
    assert again.encoder == agent.encoder
    before, after = (one.explain(POOL, rows_of(POOL)).needed(0) for one in (agent, again))
    assert before.features.equals(after.features)


POOLED = {"name": "greedy", "rank": "pooled_cdf"}

WORLDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "group a feature": ("fair_greedy", {"products": "all"}),
    "rank of all, group a feature": (POOLED, {}),
    "rank of all, group no feature": (POOLED, {"group_feature": False, "products": "all"}),
}


def loans(n: int = 400) -> pd.DataFrame:
    """Rows with a category, a missing cell in twenty, and pay that favours men."""
    draw = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "sex": draw.choice(["female", "male"], n, p=[0.4, 0.6]),
            "income": draw.normal(40, 9, n).round(1),
            "years": draw.integers(0, 30, n),
            "job": draw.choice(["clerk", "nurse", "smith"], n),
            "member": True,
        }
    )
    pay = rows.income + rows.years - (rows.income - 40) ** 2 / 50
    pay += 9 * (rows.sex == "male") + 5 * (rows.job == "nurse") + draw.normal(0, 3, n)
    rows["years"] = rows.years.where(draw.random(n) > 0.05)
    return rows.assign(pay=pay)


@pytest.mark.parametrize("world", WORLDS)
def test_no_reason_is_within_rounding_of_0_or_the_group_within_groups(world):
    """Of 20 rejected people in each world."""
    policy, options = WORLDS[world]
    table, against = loans(), "all" if policy is POOLED else "group"
    names = {"group": "sex", "reward": "pay", "missing": "mean"}
    encoder = Encoder.from_table(table, **names, **options)
    agent = Agent.from_config(policy, features=encoder, groups=["female", "male"])
    agent.observe(table, groups=table["sex"].tolist(), rewards=table["pay"])
    of_group = 0
    for i in range(20):
        pool = table.sample(4, random_state=i)
        found = agent.explain(pool, pool["sex"].tolist())
        reasons = found.reasons(int(found.index.argmin()), against)
        sizes = reasons.contribution.abs()
        assert ((sizes == 0) | (sizes > 1e-9 * sizes.max())).all()
        reasons = reasons.query("contribution < 0")
        of_group += reasons.feature.str.contains("sex").sum()
        assert not reasons.feature.isin(["member", "bias"]).any()
    assert (of_group > 0) == (world == "rank of all, group a feature")


def test_a_product_with_the_group_is_a_part_of_the_other_column_within_groups():
    table = loans()
    names = {"group": "sex", "reward": "pay", "missing": "mean", "products": [["income", "sex"]]}
    encoder = Encoder.from_table(table, **names)
    agent = Agent.from_config(
        {"name": "fair_greedy", "split": "full"}, features=encoder, groups=["female", "male"]
    )
    agent.observe(table, rewards=table["pay"])
    row = {"sex": "male", "income": 31.5, "years": 3, "job": "clerk", "member": True}
    found = agent.explain([row])
    assert found.theta is not None
    men = encoder.encode(table[table.sex == "male"])
    every = encoder.encode(table)
    for against, past in (("group", men), ("all", every)):
        contributions = found.reasons(0, against).set_index("feature").contribution
        terms = found.theta.numpy() * (encoder.encode([row])[0] - past.mean(0))
        assert contributions.sum() == pytest.approx(terms.sum())
        of = {key: [name.startswith(key) for name in encoder.names] for key in contributions.index}
        both = np.array(of["income"])  # the product begins with the name, too
        alone = both & ~np.array(of["income × sex"])
        if against == "group":
            assert contributions["income × sex"] == contributions["sex"] == 0
            assert contributions["income"] == pytest.approx(terms[both].sum())
        else:
            assert contributions["income"] == pytest.approx(terms[alone].sum())
            assert contributions["income × sex"] == pytest.approx(terms[of["income × sex"]].sum())
            assert abs(contributions["sex"]) > 0.1
    with pytest.raises(FairbanditError, match="against: expected one of group, all; got 'men'"):
        found.reasons(0, "men")


BENT = pd.DataFrame(
    {
        "sex": [*"fm"] * 100,
        "age": [20 + (7 * i) % 41 for i in range(200)],
        "hours": [10 + (11 * i) % 37 + 0.5 * (i % 2) for i in range(200)],
    }
)


def bent(policy: str, sign: int) -> Agent:
    """An agent for which the middle of each column is best (sign −1) or worst (1)."""
    pay = sign * (((BENT.age - 40) / 10) ** 2 + ((BENT.hours - 27) / 8) ** 2)
    names = {"group": "sex", "reward": "pay"}
    encoder = Encoder.from_table(BENT.assign(pay=pay), **names, products="all")
    agent = Agent.from_config(policy, features=encoder, groups=["f", "m"])
    agent.observe(BENT, rewards=pay)
    return agent


@pytest.mark.parametrize("sign", [-1, 1])
def test_needed_and_kept_values_are_those_of_a_fine_grid(sign):
    """For greedy, the choice has the greatest score: brute force over the scores of a grid."""
    agent, cases = bent("greedy", sign), set()
    assert agent.encoder is not None
    spans = {"age": np.arange(20, 61.0), "hours": np.linspace(10, 46.5, 731)}
    for i in range(2):
        pool = BENT.sample(3, random_state=i).astype({"age": float})
        found = agent.explain(pool)
        assert found.theta is not None
        scores = agent.encoder.encode(pool) @ found.theta.numpy()
        for place, (column, grid) in product(range(3), spans.items()):
            rows = pd.DataFrame([pool.iloc[place].to_dict()] * len(grid)).assign(**{column: grid})
            best = np.delete(scores, place).max()
            sure, start = scores[place] > best, pool[column].iloc[place]
            changed = grid[(agent.encoder.encode(rows) @ found.theta.numpy() > best) != sure]
            step = grid[1] - grid[0]
            sides = [changed[changed > start].min(initial=np.inf) - step * sure]
            sides += [changed[changed < start].max(initial=-np.inf) + step * sure]
            right = min(sides, key=lambda other: abs(other - start))
            features = found.needed(place).features.set_index("feature")
            value = features.loc[column, "keeps" if sure else "needed"]
            if np.isinf(right):
                assert np.isnan(value)
            else:
                assert value == pytest.approx(right, abs=0 if column == "age" else step)
                suffices = pool.copy()
                suffices.iloc[place, suffices.columns.get_loc(column)] = value
                assert agent.explain(suffices).probabilities[place] == 1
            ends = (
                (agent.encoder.encode(rows.iloc[[0, -1]]) @ found.theta.numpy() > best) != sure
            ).any()
            cases.add((bool(sure), bool(np.isfinite(right)), bool(ends)))
    # whether the candidate is the choice, whether a value changes this, and whether an end does
    assert cases >= {(sign > 0, True, False), (sign < 0, True, True)}
