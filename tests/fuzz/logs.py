"""Logs of every kind, damaged or absurd, read and evaluated.

What is read must be a log that makes sense, and hold the numbers that Python's own csv and json
modules read; what a damaged chain still gives must be the beginning of what was written. The
estimates must be those of a plain sum.
"""

import csv
import io
import json
import math
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from fairbandit import Agent
from fairbandit.errors import FairbanditError
from fairbandit.evaluation import direct, evaluate
from fairbandit.logs import Log, chain, read_log
from tests.evaluation.logs import random_log, target
from tests.fuzz.tables import _number, _text
from tests.fuzz.values import LABELS, NUMBERS, TEXTS, crafted, damaged


def logs(draw: random.Random, folder: Path) -> None:
    """`read_log` and `evaluate`."""
    log = draw.choice([_bytes, _lines, _records, _frame, _obp])(draw, folder)
    _sound(log)
    table = _evaluated(log)
    values = table["value"][table["estimator"] != "direct"]
    assert np.isfinite(values).all(), table
    for rate in table["value"][table["estimator"] == "exact"]:
        assert -1e-9 <= rate <= 1 + 1e-9
    for value in table["value"][table["measure"].isin(["rank", "win"])]:
        assert -0.5 < value < 1.5


@cache
def _whole() -> Path:
    """A folder with a sound log of each kind."""
    folder = Path(_kept().name)
    log = random_log(16, k=3)
    log.frame.to_csv(folder / "log.csv", index=False)
    log.frame.to_parquet(folder / "log.parquet")
    (folder / "log.dsjson").write_text("".join(map(_dsjson, log.frame.groupby("decision"))))
    agent = Agent.from_config("epsilon_greedy", features=2, seed=0, log=folder / "log.jsonl")
    for t in range(16):
        agent.act([[t, 1.0], [0.5, -t], [t / 3, 2.0]], ["a", ("b", 1), "late"])
        if t % 3:
            agent.update(t / 7)
    return folder


@cache
def _kept() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory()  # removed when the process ends


def _dsjson(decision: tuple[Any, pd.DataFrame]) -> str:
    """A line of Vowpal Wabbit."""
    name, pool = decision
    pick, p = int(pool["picked"].argmax()), pool["propensity"].tolist()
    actions = pool[["group", "age", "years", "test"]].to_dict("records")
    record = {
        "_label_cost": -pool["reward"].max(),
        "_label_probability": p[pick],
        "_labelIndex": pick,
        "EventId": str(name),
        "a": [*range(1, len(p) + 1)],
        "p": p,
        "c": {"_multi": actions},
    }
    return json.dumps(record) + "\n"


def _evaluated(log: Log) -> pd.DataFrame:
    with patch.object(direct.direct_values, "__defaults__", (3,)):
        table = evaluate(log, ["fair_greedy", "uniform"], adaptive=False)
    rows = table.set_index(["policy", "measure", "estimator"])["value"]
    found = rows[rows.index == ("uniform", "reward", "ips")]
    if len(found) and log.picks.shape[1] == 1:
        seen = ~np.isnan(log.rewards[:, 0])
        size = log.sizes[seen]
        terms = log.rewards[seen, 0] / log.propensities[seen, 0] / size
        assert math.isclose(found.iloc[0], terms.mean(), rel_tol=1e-6, abs_tol=1e-6 * terms.std())
    return table


def _sound(log: Log) -> None:
    """Refuses a log whose parts contradict each other."""
    assert len(log) > 0
    assert log.groups.shape == (log.sizes.sum(),)
    assert log.sizes.min() > 0
    assert log.picks.shape == log.rewards.shape == log.propensities.shape
    assert ((log.groups >= 0) & (log.groups < len(log.labels))).all()
    assert ((log.picks >= 0) & (log.picks < log.sizes[:, None])).all(), "no candidate was picked"
    assert not np.isinf(log.rewards).any()
    known = ~np.isnan(log.propensities)
    assert known.all() or not known.any()
    assert ((log.propensities > 0) & (log.propensities <= 1))[known].all()
    if log.contexts is not None:
        assert log.contexts.shape == (len(log.groups), len(log.features))
        assert np.isfinite(log.contexts).all()
    if log.probabilities is not None:
        assert (log.probabilities >= 0).all()
        assert (np.abs(log.sums(log.probabilities) - 1) <= 0.0051 * log.sizes.max()).all()


def _bytes(draw: random.Random, folder: Path) -> Log:
    """A file whose bytes are damaged."""
    whole = draw.choice(sorted(_whole().glob("log.*sv"))) if draw.random() < 0.4 else None
    whole = whole or _whole() / draw.choice(["log.jsonl", "log.dsjson", "log.parquet"])
    path, content = folder / whole.name, whole.read_bytes()
    # a number of a Parquet file can change without a sign, but its end cannot be missing
    cut = content[: draw.randrange(len(content))]
    path.write_bytes(cut if path.suffix == ".parquet" else damaged(draw, content))
    log = read_log(path)
    if path.suffix == ".csv":
        _compare(path, log)
    _is_beginning(log, path)
    assert path.suffix != ".parquet", "accepted, though cut short"
    return log


def _compare(path: Path, log: Log) -> None:
    """Whether the picks are those that Python's own module reads."""
    text = path.read_bytes().decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    picked = [row for row in rows if _number(row["picked"]) == 1]
    right = {_text(row["decision"]): row for row in picked}
    assert len(right) == len(picked) == len(log)
    for at, name in enumerate(log.names):
        row = right[_text(name)]
        assert _number(row["propensity"]) == log.propensities[at, 0]
        reward = log.rewards[at, 0]
        assert math.isnan(reward) or _number(row["reward"]) == reward
        label = log.labels[log.groups[log.starts[at] + log.picks[at, 0]]]
        assert _text(row["group"]) == _text(label) or float(row["group"]) == float(str(label))


def _lines(draw: random.Random, folder: Path) -> Log:
    """A file of lines, some of them moved, doubled, left out or joined."""
    name = draw.choice(["log.jsonl", "log.dsjson", "log.csv"])
    lines = (_whole() / name).read_text().splitlines(keepends=True)
    at, to = draw.randrange(len(lines)), draw.randrange(len(lines))
    how = draw.choice(["move", "double", "leave", "join", "odd"])
    line = lines.pop(at)
    if how == "odd":
        line = draw.choice(["[" * 100_000, "{}\n", "\n", "null\n", "\x00\n", line[::-1], "," * 9])
    lines.insert(to if how in ("move", "odd") else at, line.rstrip() if how == "join" else line)
    if how in ("double", "leave"):
        lines[at : at + 1] = [line, line] if how == "double" else []
    path = folder / name
    path.write_text("".join(lines))
    log = read_log(path)
    _is_beginning(log, path)
    return log


def _is_beginning(log: Log, path: Path) -> None:
    """Whether a chain that is read holds what was written, up to some line."""
    if path.suffix == ".jsonl":
        right = read_log(_whole() / path.name)[: len(log)]
        assert log.contexts is not None
        assert np.array_equal(log.contexts, right.contexts)  # type: ignore[arg-type]
        assert np.array_equal(log.picks, right.picks)


def _records(draw: random.Random, folder: Path) -> Log:
    """Lines of JSON of a stranger, with right hashes where there are any."""
    name = draw.choice(["log.jsonl", "log.dsjson"])
    records = [json.loads(line) for line in (_whole() / name).read_text().splitlines()]
    at, end = draw.randrange(len(records)), chain.Position()
    records[at] = crafted(draw, records[at])
    path, data = folder / name, b""
    for record in records:
        if name == "log.dsjson":
            data += json.dumps(record).encode() + b"\n"
            continue
        if isinstance(record, dict):
            record.pop("sha256", None)
            record.pop("previous", None)
        try:
            line, end = chain.chained(json.dumps(record).encode(), end)
        except TypeError as error:
            raise FairbanditError("no line") from error
        data += line
    path.write_bytes(data)
    return read_log(path)


def _frame(draw: random.Random, folder: Path) -> Log:
    """A table in memory with odd cells, or in a folder with another one."""
    frame = pd.read_parquet(_whole() / "log.parquet").astype(object)
    column = draw.choice(list(frame.columns))
    cells: Any = draw.choice([NUMBERS, LABELS, TEXTS])
    for _ in range(draw.choice([1, 1, len(frame)])):
        frame.at[draw.choice(list(frame.index)), column] = draw.choice(cells)
    if draw.random() < 0.2:
        frame = frame.rename(columns={column: draw.choice(["group", "bias", "", "picked"])})
    options: dict[str, Any] = {}
    if draw.random() < 0.5:
        key = draw.choice(["group", "features", "score", "propensity", "reward", "decision"])
        options[key] = draw.choice(["age", ["group", "age"], [], {}, None, {"age": "category"}])
    return read_log(frame, **options)


def _obp(draw: random.Random, folder: Path) -> Log:
    """The dictionary of obp, with one entry changed."""
    log = random_log(20, k=3)
    pi = log.padded(target(log), 0.0) if draw.random() < 0.2 else np.full((20, 3), 1 / 3)
    action = log.picks[:, 0]
    given: dict[str, Any] = {
        "n_rounds": 20,
        "n_actions": 3,
        "context": log.contexts[log.starts],
        "action_context": np.eye(3),
        "action": action,
        "position": None,
        "reward": log.rewards[:, 0],
        "pi_b": pi[..., None],
        "pscore": pi[np.arange(20), action],
    }
    unmasked = [one for one in NUMBERS if one is not np.ma.masked]  # which NumPy warns of
    key = draw.choice(list(given))
    value = np.array(given[key], dtype=object)
    how = draw.choice(["one", "all", "gone", "short", "cell"])
    if how == "gone":
        del given[key]
    elif how == "cell" and value.size > 1:
        value.reshape(-1)[draw.randrange(value.size)] = draw.choice(unmasked)
        given[key] = value
    else:
        odd = value[:-1] if value.ndim else 7
        given[key] = odd if how == "short" else draw.choice(unmasked)
    return read_log(given)
