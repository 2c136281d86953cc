"""Openings: candidates come one at a time, in one process or several, and as in a simulation."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fairbandit import Agent, Encoder, FairbanditError, build, evaluate, read_log
from fairbandit.agent.replaying import explain, replay
from fairbandit.conformance import Scattered
from tests import support
from tests.agent.worlds import held

ROLLING = {"split": "full", "estimator": "ridge", "rank": "empirical_cdf"}


def agent_of(features: int = 2, **selector: Any) -> Agent:
    config = {**ROLLING, "selector": {"name": "rolling", **selector}}
    return Agent.from_config(config, features=features, groups=["a", "b"], seed=3)


def offered(agent: Agent, n: int, seed: int, **law: Any) -> list[Any]:
    """An opening of random candidates, whose rewards come after it."""
    draws, made = np.random.default_rng(seed), []
    with agent.round(**law) as opening:
        for _ in range(n):
            x = draws.normal(size=2)
            made.append(opening.offer(x, str(draws.choice(["a", "b"]))))
            if made[-1].taken:
                agent.update(x.sum() + draws.normal(), made[-1].ticket, made[-1].candidate)
    return made


@pytest.mark.parametrize(
    ("selector", "delay"),
    [
        ("rolling", 0),
        ({"name": "rolling", "epsilon": 0.3}, 5),
        ({"name": "secretary"}, 5),
        ({"name": "secretary_by_group"}, 5),
    ],
)
def test_an_agent_decides_as_a_simulation(selector: Any, delay: int, tmp_path: Path) -> None:
    """Candidates in their order, empty places left out; another process goes on now and then."""
    world, rounds, m = Scattered(), 40, 2
    config = {**ROLLING, "selector": selector}
    chosen: Any = build(config)
    (found,) = support.played(chosen, world, rounds, 1, picks=m, delay=delay)
    draws = support.draws(world, rounds, 0)
    agent = Agent(chosen, features=4, groups=3, log=tmp_path / "log.jsonl")
    due: dict[int, list[Any]] = {}
    for t in range(rounds):
        here = np.flatnonzero(draws.groups[t] >= 0)
        opening, taken = agent.round("r", places=m, candidates=len(here)), []
        for place in here.tolist():
            if (t + place) % 37 == 0:
                agent.save(tmp_path / "agent")
                agent.close()  # another process has the log
                agent = Agent.load(tmp_path / "agent", log=tmp_path / "log.jsonl")
                opening = agent.round("r")
            offer = opening.offer(draws.contexts[t, place], int(draws.groups[t, place]))
            if offer.taken:
                taken.append((place, offer.probability))
                reward = float(draws.rewards[t, place])
                due.setdefault(t + delay, []).append((reward, offer.ticket, offer.candidate))
        opening.close()
        for reward in due.pop(t, []):
            agent.update(*reward)
        slots = found.actions[0, t] >= 0
        assert [place for place, _ in taken] == found.actions[0, t][slots].tolist()
        expected = found.propensities[0, t][slots].tolist()
        assert [chance for _, chance in taken] == pytest.approx(expected, abs=1e-12)
    assert replay(tmp_path / "log.jsonl").decisions == rounds
    log = read_log(tmp_path / "log.jsonl")
    assert [[a for a in row if a >= 0] for row in log.picks.tolist()] == [
        np.searchsorted(np.flatnonzero(draws.groups[t] >= 0), [a for a in row if a >= 0]).tolist()
        for t, row in enumerate(found.actions[0].tolist())
    ]


def test_two_openings_at_once_and_a_pool_between_them(tmp_path: Path) -> None:
    """A round takes place when its opening is closed; rewards before that count from then on."""
    agents = [agent_of(epsilon=0.5) for _ in range(2)]
    for agent, early in zip(agents, (True, False), strict=True):
        one = agent.round("one", places=2, candidates=3)
        two = agent.round("two", places=1, candidates=2)
        x = np.random.default_rng(0).normal(size=(9, 2))
        first = one.offer(x[0], "a")
        assert first.ticket in (1, None)
        assert two.offer(x[1], "b").ticket in (2, None)
        assert agent.act(x[2:4], ["a", "b"]).ticket == 3
        assert (agent.rounds, agent.openings) == (1, ("one", "two"))
        offers = [first, one.offer(x[4], "a"), one.offer(x[5], "c")]
        taken = [offer for offer in offers if offer.taken]
        assert len(taken) == 2  # in all cases, as the count is right
        if early:
            agent.update(1.5, 1, taken[0].candidate)
            with pytest.raises(FairbanditError, match=r"does not wait for a reward; waiting"):
                agent.update(1.5, 1, taken[0].candidate)
            with pytest.raises(FairbanditError, match="ticket 1 is of an open opening"):
                agent.drop(1)
        two.offer(x[6], "b")
        two.close()
        three = agent.round("three", places=1, candidates=1)
        assert three.ticket == 4
        three.close()
        one.close()
        if not early:
            agent.update(1.5, 1, taken[0].candidate)
        assert (agent.rounds, agent.openings) == (3, ())
        assert agent.act(x[7:], ["a", "b"]).ticket == 5
    first_held, second_held = map(held, agents)
    assert first_held == second_held
    agents[0].save(tmp_path / "agent")
    assert held(Agent.load(tmp_path / "agent")) == first_held


def test_each_candidate_has_draws_of_its_own() -> None:
    """Two openings at once explore independently: each takes the first of two now and then."""
    agent, same = agent_of(epsilon=1.0), 0
    for _ in range(40):
        openings = [agent.round(name, places=1, candidates=2) for name in ("one", "two")]
        offers = [opening.offer([1.0, 0.0], "a") for opening in openings]
        same += offers[0].taken == offers[1].taken
        for opening in openings:
            opening.offer([0.0, 1.0], "b")
            opening.close()
    assert 8 < same < 32  # by chance otherwise with probability 2e-4


def test_an_open_opening_is_saved_and_replayed(tmp_path: Path) -> None:
    agent = Agent.from_config("fair_rolling", features=2, log=tmp_path / "log", reward="grade")
    offered(agent, 5, 0, places=2, candidates=5)
    opening = agent.round("kept", places=2, count="geometric", candidates=4)
    offer = opening.offer([0.1, 0.2], "a")
    before = agent.explain([[1.0, 2.0]], ["b"]).index
    agent.save(tmp_path / "agent")
    assert replay(tmp_path / "log").lines > 5
    again = Agent.load(tmp_path / "agent")
    assert again.openings == ("kept",)
    assert torch.equal(again.explain([[1.0, 2.0]], ["b"]).index, before)
    expected = opening.explain([1.0, 2.0], "b")
    assert again.round("kept").offer([1.0, 2.0], "b") == opening.offer([1.0, 2.0], "b")
    assert "threshold" in repr(expected)
    assert expected.to_come is not None
    assert float(expected.to_come) == 4
    assert offer.to_come == 4


def test_explain_says_what_offer_does(tmp_path: Path) -> None:
    """Beforehand and, by a replay of the log, afterwards."""
    config = {**ROLLING, "selector": {"name": "rolling", "epsilon": 0.2}}
    agent = Agent.from_config(config, features=2, log=tmp_path / "log")
    offered(agent, 8, 1, places=3, candidates=8)
    opening = agent.round(places=1, candidates=3)
    for number, x in enumerate(([0.3, 0.1], [0.5, -1.0], [2.0, 2.0])):
        found, offer = opening.explain(x, "a"), opening.offer(x, "a")
        logged = explain(tmp_path / "log", 2, candidate=number)
        assert logged.picked is not None
        assert logged.picked.tolist() == [offer.taken]
        assert repr(replace(logged, picked=None)) == repr(found)
        assert found.threshold is not None
        assert found.to_come is not None
        assert float(found.index) == offer.rank
        assert float(found.threshold) == offer.threshold
        assert float(found.to_come) == offer.to_come
        assert float(found.probabilities) == pytest.approx(offer.probability)
    with pytest.raises(FairbanditError, match="lacks a decision of ticket 2, or candidate 3"):
        explain(tmp_path / "log", 2, candidate=3)
    found = agent.explain(np.eye(2), ["a", "b"])
    assert found.to_come is not None
    assert found.to_come.tolist() == [2, 1]


def test_an_offer_reads_the_group_of_a_raw_row_as_act_does() -> None:
    table = pd.DataFrame({"age": range(20, 40), "sex": list("fm") * 10, "pay": range(20)})
    encoder = Encoder.from_table(table, group="sex", reward="pay")
    agents = [Agent.from_config("fair_rolling", features=encoder) for _ in range(2)]
    rows = table.drop(columns="pay").to_dict("records")[:4]
    offers = []
    for agent, names in zip(agents, (False, True), strict=True):
        opening = agent.round(places=1, candidates=4)
        offers.append([opening.offer(row, *[row["sex"]] * names) for row in rows])
    assert offers[0] == offers[1]
    assert held(agents[0]) == held(agents[1])


def test_an_explanation_does_not_keep_a_log_locked(tmp_path: Path) -> None:
    agent = Agent.from_config("fair_greedy", features=2, log=tmp_path / "log")
    found = agent.explain(np.eye(2), ["a", "b"])
    del agent
    with Agent.from_config("fair_greedy", features=2, log=tmp_path / "log") as agent:
        agent.act(np.eye(2), ["a", "b"])
    with pytest.raises(FairbanditError, match="was closed"):
        agent.act(np.eye(2), ["a", "b"])
    assert len(found.needed(0).features) == 2


def test_a_wrong_count_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    agent = agent_of()
    offered(agent, 6, 0, places=3, candidates=6)
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        offered(agent, 5, 1, places=3, candidates=4)
    assert caplog.text.count("more candidates come than the 4") == 1


LAWS: list[tuple[dict[str, Any], str]] = [
    ({"candidates": 2}, "places: expected a whole number of at least 1"),
    ({"places": 1}, "expected count=fixed"),
    ({"places": 101, "candidates": 99_999}, "101 places and 99,999 candidates are too many"),
]


@pytest.mark.parametrize(("law", "message"), LAWS)
def test_an_opening_of_an_invalid_law_is_refused(law: dict[str, Any], message: str) -> None:
    agent = agent_of()
    before = held(agent)
    with pytest.raises(FairbanditError, match=message):
        agent.round("one", **law)
    assert held(agent) == before


def test_mistakes_are_refused(tmp_path: Path) -> None:
    agent = Agent.from_config("fair_rolling", features=2, log=tmp_path / "log")
    with pytest.raises(FairbanditError, match="need the selector rolling, secretary or"):
        Agent.from_config("greedy", features=2).round(places=1, candidates=2)
    with pytest.raises(FairbanditError, match="'typo' is not open; open ones: none"):
        agent.round("typo")
    opening = agent.round("one", places=1, candidates=2)
    with pytest.raises(FairbanditError, match="expected the name of a new opening, got 'one'"):
        agent.round("one", places=1, candidates=2)
    assert opening.offer([2.0**300, 2.0**300], "a").taken  # Σ xxᵀ is singular without rounding
    before, size = held(agent), (tmp_path / "log").stat().st_size
    with pytest.raises(FairbanditError, match="contexts: expected shape"):
        opening.offer([1.0], "a")
    with pytest.raises(FairbanditError, match="rounding would hide all contexts"):
        agent.update(1.0)  # else the opening could not be closed
    with pytest.raises(ValueError, match="stop"), agent.round("one"):
        raise ValueError("stop")
    assert (held(agent), (tmp_path / "log").stat().st_size) == (before, size)
    opening.close()
    assert agent.rounds == 1
    agent.round("one", places=1, candidates=2)
    with pytest.raises(FairbanditError, match="of ticket 1 is not open; open ones: 'one'"):
        opening.offer([1.0, 2.0], "a")


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_pools_whose_places_may_stay_open_are_logged(epsilon: float, tmp_path: Path) -> None:
    """A replay asks for as many picks as the call did, and readers know the decisions."""
    law = {"count": "geometric", "candidates": 4, "epsilon": epsilon}
    config = {**ROLLING, "selector": {"name": "rolling", **law}}
    agent = Agent.from_config(config, features=2, log=tmp_path / "log")
    draws, picks = np.random.default_rng(0), list[tuple[int, ...]]()
    for _ in range(40):
        x = draws.normal(size=(4, 2))
        decision = agent.act(x, ["a", "b", "a", "b"], 2)
        picks.append(decision.picks)
        for place in decision.picks:
            agent.update(x[place].sum(), decision.ticket, place)
    assert {0, 1, 2} == {len(places) for places in picks}
    assert replay(tmp_path / "log").decisions == 40
    log = read_log(tmp_path / "log")
    found = [tuple(place for place in row if place >= 0) for row in log.picks.tolist()]
    assert found == [places for places in picks if places]
    assert any("1 of decisions without a pick" in note for note in log.notes)
    assert any("left places open by chance" in note for note in log.notes) == (epsilon > 0)


def test_evaluations_need_exploration(tmp_path: Path) -> None:
    """A log of thresholds alone cannot be weighted for other policies; one that explores can."""
    for epsilon in (0.0, 0.4):
        agent = Agent.from_config(
            {**ROLLING, "selector": {"name": "rolling", "epsilon": epsilon}},
            features=2,
            log=tmp_path / f"{epsilon}",
        )
        for seed in range(150):
            offered(agent, 5, seed, places=2, candidates=5)
        log = read_log(tmp_path / f"{epsilon}")
        assert log.picks.shape == (150, 2)
        table = evaluate(log, "uniform", train=0)
        judged = table[table["policy"] != "logged"]
        assert (set(judged["estimator"]) >= {"ips", "snips", "dr"}) == (epsilon > 0)
        refused = [note for note in table.attrs["notes"] if "lacks support" in note]
        assert bool(refused) == (epsilon == 0)
    with agent.round(places=3, candidates=30) as opening:
        while not opening.offer([0.0, 0.0], "a").taken:
            pass
    short = read_log(tmp_path / "0.4")
    assert np.isnan(short.propensities[-1]).all()
    assert any("left places open by chance" in note for note in short.notes)
