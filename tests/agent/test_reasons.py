"""Why a candidate has its score, and what makes its pick certain, confirmed by playing it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairbandit import Agent, Encoder, FairbanditError
from fairbandit.agent import explain
from tests.docs.pages import DOCS, Page

DRAW = np.random.default_rng(3)

ROWS = [
    {"sex": "fm"[i % 2], "age": 20 + i % 41, "hours": 5.0 + i % 37, "job": "abc"[i % 3], "pay": 0.0}
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
        mean = float((agent.encoder(past) @ found.theta.numpy()).mean())
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
        theta, x = found.theta.numpy()[of_job], agent.encoder([row])[0, of_job]
        by_hand = theta @ (x - agent.encoder(past)[:, of_job].mean(0))
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
            if np.isnan(row.needed):
                continue
            is_choice = float(found.probabilities[place]) == pytest.approx(most)
            reached.add(is_choice)
            assert 5 <= row.needed <= 60
            end = np.inf * (row.needed - row.value) if is_choice else row.value
            for value, right in ((row.needed, 1), (np.nextafter(row.needed, end), 0)):
                pool = [dict(other) for other in POOL]
                pool[place][row.feature] = value
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
    scores = np.sort(agent.encoder(past) @ found.theta.numpy())
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
    new = agent.explain([[0.0, 0.0], [0.0, 0.0]], ["new", "newer"])  # whose ranks are drawn
    assert new.needed(int(new.index.argmin())).why.endswith("are not enough.")
    alone = agent.explain([[99.0, 99.0]], ["a"]).needed(0)
    assert alone.why.startswith("The candidate is the choice with every score from -")
    best = found.needed(int(found.probabilities.argmax())).features
    assert (best.needed < best.value).all()
    frame = found.to_frame()
    assert list(frame) == str(found).split("\n")[0].split()
    assert frame.score.tolist() == found.scores.tolist()


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


def test_the_notice_of_the_page_works_with_an_encoder(tmp_path, monkeypatch, capsys):
    """A category has a text as its value, and no mean."""
    monkeypatch.chdir(tmp_path)
    _, pools = experienced("fair_greedy", 30, log="decisions.jsonl")
    (block,) = (block.text for block in Page(DOCS / "logs.md").blocks if "reasons(" in block.text)
    space = dict[str, Any]()
    exec(block.replace("ticket=150", "ticket=27"), space)
    assert not space["found"].picked[space["candidate"]]
    row, printed = pools[26][space["candidate"]], capsys.readouterr().out
    assert f"* job is {row['job']}\n" in printed
    assert f"* hours is {row['hours']:.2f}; the mean of your group is " in printed
    assert f" in place of {row['hours']:.2f}, " in printed
