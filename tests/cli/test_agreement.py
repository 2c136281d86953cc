"""Python and the command line, given the same words, give the same numbers or refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit import Agent, FairbanditError, compare, evaluate, load, pooled, read_log, sweep
from fairbandit.agent import explain, replay
from fairbandit.logs import erase
from fairbandit.runs.execute import execute


def numbers(folder: Path) -> dict[str, Any]:
    """The results of a run, without its duration."""
    summary = json.loads((folder / "summary.json").read_text())
    return {key: summary[key] for key in ("metrics", "selection_rate", "rounds", "replicas")}


def test_a_run_is_described_by_names(command, tmp_path):
    words = {"policy": "greedy", "environment": "simulation", "rounds": 40, "replicas": 2}
    execute(words, tmp_path / "python")
    run = [f"{key}={value}" for key, value in words.items()]
    assert command(*run, "hydra.run.dir=command")[0] == 0
    assert numbers(tmp_path / "python") == numbers(tmp_path / "command")
    with pytest.raises(FairbanditError, match="expected a policy, got 'greeedy'"):
        execute({**words, "policy": "greeedy"}, tmp_path / "none")


def test_a_log_is_replayed_explained_and_erased(command, tmp_path):
    path, draws = tmp_path / "log.jsonl", np.random.default_rng(0)
    agent = Agent.from_config("fair_greedy", features=3, groups=2, log=path)
    for n in range(30):
        agent.act(draws.normal(size=(5, 3)), draws.integers(0, 2, 5), id=f"application {n + 1}")
        agent.update(float(draws.normal()))
    receipt = replay("log.jsonl")
    _, out, _ = command("replay", "log.jsonl")
    assert f"{receipt.lines} lines are as written: {receipt.decisions} decisions" in out
    assert receipt.sha256 in out
    for ticket in ("ticket=20", "ticket=application 20"):
        assert command("explain", "log.jsonl", ticket)[1] == f"{explain('log.jsonl', 20)}\n"
    assert erase("log.jsonl", "python.jsonl", [3, 4]) == 2
    code, out, _ = command("erase", "log.jsonl", "tickets=[3,application 4]", "out=command.jsonl")
    assert (code, out.splitlines()[0]) == (0, "2 decisions are left out")
    assert Path("python.jsonl").read_bytes() == Path("command.jsonl").read_bytes()
    for call, words in (
        (lambda: explain("log.jsonl", 99), ("explain", "log.jsonl", "ticket=99")),
        (lambda: replay("python.jsonl"), ("replay", "python.jsonl")),
        (
            lambda: erase("no.jsonl", "copy.jsonl", [1]),
            ("erase", "no.jsonl", "tickets=1", "out=copy.jsonl"),
        ),
    ):
        with pytest.raises((FairbanditError, OSError)) as refused:
            call()
        assert str(refused.value) in command(*words)[2]


def test_saved_runs_are_chosen_and_pooled(command):
    words = ("policy=greedy,uniform", "seed=0,1", "rounds=40", "replicas=2")
    assert command("-m", *words, "hydra.sweep.dir=runs")[0] == 0
    choice = ("policy=greedy", "where.rounds=40", "where.seed=0,1")
    chosen = load("runs", where={"policy": ["greedy"], "rounds": [40], "seed": [0, 1]})
    assert len(chosen.groupby(["policy", "seed"], observed=True)) == 2
    cases: list[tuple[tuple[str, ...], pd.DataFrame]] = [
        (choice, pooled(chosen)),
        (("against={policy: greedy}",), compare(load("runs"), {"policy": "greedy"})),
    ]
    for asked, made in cases:
        assert command("collect", "runs", *asked, "out=a.parquet")[0] == 0
        written = pd.read_parquet("a.parquet")
        assert [*written] == [*made]
        for column in made:
            texts = (made[column].astype(object), written[column].astype(object))
            first, second = (own.where(own.notna(), "").map(str).tolist() for own in texts)
            assert first == second, column
    python = sweep({"rounds": 40, "replicas": 2}, {"policy": ["greedy", "uniform"], "seed": [0, 1]})
    whole = load("runs")
    keys = ["policy", "seed", "replica", "measure", "group"]
    pd.testing.assert_frame_equal(
        python.sort_values(keys, ignore_index=True), whole.sort_values(keys, ignore_index=True)
    )
    with pytest.raises(FairbanditError) as refused:
        load("runs", where={"policy": ["greeedy"]})
    for wrong in (
        ("collect", "runs", "where.policy=greeedy"),
        ("figures", "runs", "policy=greeedy"),
    ):
        assert str(refused.value).partition(";")[0] in command(*wrong)[2]


def test_a_table_is_encoded_like_the_saved_agent_that_it_judges(command, tmp_path):
    frames = []
    for seed in (0, 1):
        draws, n = np.random.default_rng(seed), 600
        rows = {"decision": np.repeat(np.arange(n // 3), 3), "picked": np.tile([1, 0, 0], n // 3)}
        rows |= {"sex": draws.choice(["f", "m"], n), "age": draws.normal(40 + 9 * seed, 5, n)}
        frame = pd.DataFrame(rows | {"propensity": 1 / 3, "grade": draws.normal(size=n)})
        frames.append(frame.assign(grade=frame["grade"].where(frame["picked"] == 1)))
    columns: dict[str, Any] = {"group": "sex", "reward": "grade"}
    log = read_log(frames[0], **columns)
    Agent.from_log("greedy", log, seed=0).save(tmp_path / "agent.pt")
    frames[1].to_csv("log.csv", index=False)
    words = ("log.csv", "policy=agent.pt", "group=sex", "reward=grade", "train=0")
    assert command("evaluate", *words, "out=evaluation.csv")[0] == 0
    written = pd.read_csv("evaluation.csv")
    for source in ("log.csv", frames[1]):
        found = evaluate(source, "agent.pt", train=0, **columns)
        assert found["measure"].tolist() == written["measure"].tolist()
        for column in ("value", "low", "high"):
            np.testing.assert_allclose(found[column], written[column], rtol=1e-9)
    with pytest.raises(FairbanditError) as refused:
        evaluate("log.csv", "agent.pt", train=0, group="sexx", reward="grade")
    wrong = command("evaluate", *words[:2], "group=sexx", "reward=grade", "train=0")
    assert str(refused.value) in wrong[2]
    with pytest.raises(FairbanditError, match="unknown argument 'foldz'"):
        evaluate(log, "uniform", foldz=2)
    with pytest.raises(FairbanditError, match="group: expected a path or a table to read"):
        evaluate(log, "uniform", group="sex")
