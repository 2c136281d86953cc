"""Hostile calls of an agent, compared with a twin that meets only what is valid.

Each input makes two equal agents and lets them live for some rounds. One of them then gets a
hostile call. If it is refused, the two must still be equal, bit for bit. If it is accepted, the
twin gets the same call in plain Python numbers, converted here, and they must be equal again. In
the end both decide a few more ordinary rounds, alike.
"""

import datetime
import math
import random
import string
import warnings
from collections.abc import Callable, Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import torch

from fairbandit import Agent
from fairbandit.errors import FairbanditError
from tests.agent import worlds
from tests.fuzz.harness import Fault, FoundError, Subject

FEATURES = 3

CONFIGS: tuple[Any, ...] = (
    "fair_greedy",
    "greedy",
    "oful",
    "uniform",
    {"split": "halves", "estimator": "ridge", "rank": "recent_cdf"},
    {"split": "full", "estimator": "ridge", "rank": "smoothed_cdf"},
    {"split": "full", "estimator": "ridge", "rank": "shrunk_cdf"},
    {"split": "halves", "estimator": "ridge", "rank": "tradeoff"},
    {"split": "full", "estimator": "ridge", "rank": "noisy_rewards_cdf"},
)

Maker = Callable[[random.Random], Any]

CONTAINERS: tuple[Callable[[Any], Any], ...] = (np.array, torch.tensor, tuple)

SERIES: tuple[Callable[[Any], Any], ...] = (*CONTAINERS, pd.Series, np.ma.array)


def _sparse(_: random.Random) -> Any:
    return torch.eye(FEATURES).to_sparse()


def _quantised(_: random.Random) -> Any:
    return torch.quantize_per_tensor(torch.eye(FEATURES), 0.1, 0, torch.qint8)


def _masked(_: random.Random) -> Any:
    return np.ma.masked_array(np.ones((3, FEATURES)), mask=np.eye(3, FEATURES, dtype=bool))


NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2.5, -0.0, 5e-324, 1e-300, 1e-160, 1e9, -1e9, 1e50, 1e99, 1e100, 1.1e100),
    *(1e154, 1e200, 1.7e308, 2**53 + 1, 2**63, 2**64, 10**30, 10**99, 10**101, 10**400),
    *(math.nan, math.inf, -math.inf, True, False, None, "", "1", "nan", b"1", 1j, complex(1, 0)),
    *(Decimal("1.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Fraction(1, 3)),
    *(np.float16(1.5), np.float32(0.1), np.longdouble("1.5"), np.int8(-3), np.uint64(2**64 - 1)),
    *(
        np.float64("nan"),
        np.datetime64("NaT", "s"),
        np.datetime64("2020-01-01"),
        np.timedelta64(1, "s"),
    ),
    *(pd.NA, pd.NaT, pd.Timestamp(0), datetime.date(2020, 1, 1), np.bool_(True), np.str_("3")),
    *([], [1.0], (), {}, set(), object(), range(3), Ellipsis, np.ma.masked),
    *(torch.tensor(1.5), torch.tensor([1.5]), torch.tensor([1.0, 2.0]), torch.tensor(math.nan)),
    *(np.array(2.0), np.array([2.0]), np.array([]), np.array([[1.0]]), lambda: 1.0),
)

LABELS: tuple[Any, ...] = (
    *("a", "b", "c", "", "new", "[red]", "[/x]", "a, b", "a\nb", "\x00", "ü" * 50, 0, 1, 1.0, True),
    *(None, math.nan, (math.nan,), ("a", (1, math.nan)), (1, "x"), (), frozenset({1}), b"raw"),
    *(
        np.datetime64("NaT", "s"),
        np.datetime64("2020-01-01"),
        pd.NaT,
        pd.NA,
        Decimal("NaN"),
        10**30,
    ),
    *(Decimal("1.5"), Fraction(1, 2), 1j, complex(math.nan, 0), float("inf"), -0.0, range(2)),
    *(object(), int, len, [], ["a"], {}, {"a": 1}, set(), np.array(["a"]), torch.zeros(2)),
    *(torch.tensor(1), torch.tensor(math.nan), np.float64("nan"), np.int64(1), np.str_("a")),
    *(np.ma.masked, Ellipsis, NotImplemented, datetime.date(2020, 1, 1), slice(1)),
)

SHAPES: tuple[Maker, ...] = (
    lambda _: None,
    lambda _: [],
    lambda _: [[]],
    lambda _: [[], []],
    lambda _: "abc",
    lambda _: {"a": 1},
    lambda _: {1, 2},
    lambda _: iter([[1.0, 2.0, 3.0]]),
    lambda _: (x for x in [[1.0, 2.0, 3.0]]),
    lambda _: [[1.0, 2.0, 3.0], [1.0]],
    lambda _: np.zeros((0, FEATURES)),
    lambda _: np.zeros((2, 0)),
    lambda _: np.zeros((2, FEATURES, 1)),
    lambda _: np.zeros((FEATURES, 2)).T[:, ::-1],
    lambda _: np.ones((2, FEATURES), dtype=np.float16),
    lambda _: np.ones((2, FEATURES), dtype=complex),
    lambda _: np.ones((2, FEATURES), dtype=bool),
    lambda _: np.ones((2, FEATURES), dtype=object),
    lambda _: np.full((2, FEATURES), None),
    lambda _: np.full((2, FEATURES), "1"),
    lambda _: np.full((2, FEATURES), np.datetime64("NaT", "s")),
    lambda _: np.zeros(2, dtype=[("x", float), ("y", int)]),
    lambda _: np.ones((2, FEATURES), dtype=np.longdouble) * np.longdouble("1e100"),
    lambda _: np.broadcast_to(np.ones(FEATURES), (2, FEATURES)),
    _masked,
    _sparse,
    lambda _: np.ma.masked_array(np.ones((3, FEATURES)), mask=False),
    _quantised,
    lambda _: torch.ones(2, FEATURES, device="meta"),
    lambda _: torch.ones(2, FEATURES, requires_grad=True),
    lambda _: torch.ones(2, FEATURES, dtype=torch.bfloat16),
    lambda _: torch.ones(2, FEATURES, dtype=torch.complex64),
    lambda _: torch.ones(2, FEATURES, dtype=torch.bool),
    lambda _: torch.ones(2, FEATURES).to_sparse_csr(),
    lambda _: torch.nested.nested_tensor([torch.ones(FEATURES), torch.ones(FEATURES)]),
    lambda _: [torch.ones(FEATURES), torch.ones(FEATURES)],
    lambda _: [[torch.tensor(1.0)] * FEATURES],
    lambda _: pd.DataFrame(np.ones((2, FEATURES))),
    lambda _: np.ones((2, FEATURES)).data,
    lambda _: b"\x00" * 24,
    lambda _: [1.0, 2.0, 3.0],
    lambda _: 1.0,
    lambda _: [[1.0, 2.0, None]],
)


class Calls(Subject):
    """`act`, `update`, `drop` and `observe`, and the constructor."""

    name = "calls"
    share = 0.4
    limit = 10.0

    def attempt(self, number: int) -> None:
        """Two equal agents, one hostile call, two equal agents."""
        draw = self.source(number)
        if draw.random() < 0.1:
            Agent.from_config(**_options(draw))
            return
        agent, twin = _pair(draw)
        with warnings.catch_warnings(action="ignore"):  # of libraries, about odd inputs
            hostile, plain = _call(draw, agent)
        refused = False
        try:
            given = hostile(agent)
        except FairbanditError:
            refused = True
        else:
            try:
                again = plain(twin)
            except (TypeError, ValueError, ArithmeticError, FairbanditError) as error:
                raise FoundError(
                    Fault.value, f"accepted, though no plain numbers say the same: {error!r}"
                ) from error
            if given != again:
                raise FoundError(Fault.value, f"decided {given}, where the twin decided {again}")
        fault = Fault.state if refused else Fault.value
        if worlds.held(agent) != worlds.held(twin):
            raise FoundError(fault, "the agent is no longer what its twin is")
        for _ in range(3):
            one, other = _round(draw, agent, twin)
            if one != other:
                raise FoundError(
                    fault, f"a later round decided {one}, where the twin decided {other}"
                )
        if worlds.held(agent) != worlds.held(twin):
            raise FoundError(fault, "after later rounds the agent is no longer what its twin is")
        if refused:
            raise FairbanditError("refused")


def _pair(draw: random.Random) -> tuple[Agent, Agent]:
    """Two agents with the same life."""
    options: dict[str, Any] = {"features": FEATURES, "groups": ["a", "b"], "seed": 7}
    options["patience"] = draw.choice([None, None, 0, 3])
    options["refresh"] = draw.choice([None, None, 1.1, 2.0])
    config, scale = draw.choice(CONFIGS), draw.choice([1.0, 1.0, 1.0, 1e-9, 1e9, 1e60])
    pair = Agent.from_config(config, **options), Agent.from_config(config, **options)
    for _ in range(draw.choice([0, 1, 3, 8, 20])):
        _round(draw, *pair, scale if draw.random() < 0.2 else 1.0)
    return pair


def _round(draw: random.Random, agent: Agent, twin: Agent, scale: float = 1.0) -> tuple[Any, Any]:
    """One ordinary round of both."""
    count = draw.randint(1, 4)
    pool = [[scale * draw.gauss(0, 1) for _ in range(FEATURES)] for _ in range(count)]
    labels = [draw.choice("abc") for _ in range(count)]
    found = agent.explain(pool, labels)  # which changes nothing: the twin is not asked
    decided = agent.act(pool, labels), twin.act(pool, labels)
    assert float(found.probabilities[decided[0].candidate]) == decided[0].propensity
    if draw.random() < 0.8:
        reward = scale * draw.gauss(0, 1)
        for each, decision in zip((agent, twin), decided, strict=True):
            if decision.ticket in each.pending:
                each.update(reward, decision.ticket)
    return decided


Call = Callable[[Agent], Any]


def _call(draw: random.Random, agent: Agent) -> tuple[Call, Call]:
    """A hostile call, and the same in plain Python numbers."""
    kind = draw.choice(["act", "act", "labels", "update", "ticket", "observe"])
    if kind == "act":
        contexts = _contexts(draw)
        labels = [draw.choice("abx") for _ in range(_length(contexts, draw))]
        return (
            lambda each: each.act(contexts, labels),
            lambda each: each.act(_plain_rows(contexts), labels),
        )
    if kind == "labels":
        count = draw.randint(1, 3)
        pool = [[draw.gauss(0, 1) for _ in range(FEATURES)] for _ in range(count)]
        given = _labels(draw, count)
        return lambda each: each.act(pool, given), lambda each: each.act(pool, _plain_list(given))
    if kind == "update":
        reward = draw.choice(NUMBERS)
        ticket = draw.choice([None, *agent.pending])
        return (
            lambda each: each.update(reward, ticket),
            lambda each: each.update(_plain_number(reward), ticket),
        )
    if kind == "ticket":
        ticket = draw.choice([*NUMBERS, *agent.pending, agent.rounds + 1])
        name = draw.choice(["update", "drop"])
        if name == "drop":
            return lambda each: each.drop(ticket), lambda each: each.drop(_plain_whole(ticket))
        return (
            lambda each: each.update(1.0, ticket),
            lambda each: each.update(1.0, None if ticket is None else _plain_whole(ticket)),
        )
    return _logged(draw)


def _logged(draw: random.Random) -> tuple[Call, Call]:
    rounds, places = draw.randint(0, 3), draw.randint(1, 3)
    shape = (rounds, places, FEATURES)
    valid: dict[str, Any] = {
        "contexts": np.arange(math.prod(shape), dtype=float).reshape(shape).tolist(),
        "groups": [["a", "b", "new"][:places] for _ in range(rounds)],
        "actions": [0] * rounds,
        "rewards": [0.5] * rounds,
    }
    if not rounds:
        valid["contexts"] = np.zeros(shape)
        valid["groups"] = np.zeros(shape[:2])
    log = dict(valid)
    key = draw.choice(list(valid))
    convert: Callable[[Any], Any]
    if key == "contexts":
        convert = _plain_rows
        log[key] = draw.choice([_contexts(draw), [_contexts(draw) for _ in range(rounds)]])
    elif key == "groups":
        convert = _plain_list
        log[key] = draw.choice([_labels(draw, places), [_labels(draw, places)] * rounds])
    else:
        convert = _plain_number if key == "rewards" else _plain_whole
        log[key] = draw.choice([_labels(draw, rounds), [draw.choice(NUMBERS)] * rounds])

    def plainly(each: Agent) -> None:
        given = [convert(entry) for entry in log[key]]
        each.observe(**{**log, key: given or valid[key]})

    return lambda each: each.observe(**log), plainly


def _contexts(draw: random.Random) -> Any:
    """A pool of which something is unusual."""
    if draw.random() < 0.4:
        return draw.choice(SHAPES)(draw)
    rows: list[Any] = [
        [draw.gauss(0, 1) for _ in range(FEATURES)] for _ in range(draw.randint(1, 3))
    ]
    draw.choice(rows)[draw.randrange(FEATURES)] = draw.choice(NUMBERS)
    if draw.random() < 0.5:
        return rows
    try:
        return draw.choice(CONTAINERS)(rows)
    except (ValueError, TypeError, RuntimeError, OverflowError):  # what holds no such number
        return rows


def _labels(draw: random.Random, count: int) -> Any:
    """Labels of which some are unusual, in an unusual container at times."""
    labels = [draw.choice(LABELS) for _ in range(count)]
    if draw.random() < 0.5:
        labels = ["a"] * count
        if count:
            labels[draw.randrange(count)] = draw.choice(LABELS)
    if draw.random() < 0.7:
        return labels
    if draw.random() < 0.3:
        return draw.choice(
            [None, "ab", 3, {"a"}, iter(labels), "".join(draw.choices(string.printable, k=count))]
        )
    try:
        return draw.choice(SERIES)(labels)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return labels


def _options(draw: random.Random) -> dict[str, Any]:
    """Arguments of an agent, one of them unusual."""
    options: dict[str, Any] = {
        "config": draw.choice(CONFIGS),
        "features": FEATURES,
        "groups": ["a"],
        "seed": 0,
        "exploration": 1.0,
        "refresh": None,
        "patience": None,
    }
    key = draw.choice(list(options))
    pool = [value for value in (*NUMBERS, *LABELS) if not _huge(value)]
    options[key] = draw.choice(pool)
    if draw.random() < 0.3:
        options["config"] = {
            "split": draw.choice(pool),
            "estimator": {"name": "ridge", draw.choice(["noise", "x"]): draw.choice(pool)},
            "rank": draw.choice(["empirical_cdf", *pool]),
        }
    return options


def _huge(value: Any) -> bool:
    """Whether a number is within what an agent may take for a size, and too large for a test."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 1e6 < value < 1e25


def _length(values: Any, draw: random.Random) -> int:
    try:
        return len(values)
    except (TypeError, RuntimeError):  # as of tensors without dimensions, and of nested ones
        return draw.randint(0, 3)


def _plain_number(value: Any) -> float:
    """A real number as Python's float, with an error for everything else."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        if value.numel() != 1 if isinstance(value, torch.Tensor) else value.size != 1:
            raise TypeError(f"not one number: {value!r}")
        value = value.item()
    if isinstance(value, (list, tuple)) and len(value) == 1:
        return _plain_number(value[0])
    if isinstance(value, (str, bytes, complex)) or value is None or value is np.ma.masked:
        raise TypeError(f"not a real number: {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"not finite: {value!r}")
    return number


def _plain_rows(values: Any) -> list[list[float]]:
    if np.ma.is_masked(values):
        raise TypeError("masked")
    if isinstance(values, torch.Tensor):
        values = values.detach().to_dense() if values.layout != torch.strided else values.detach()
        values = values.tolist()
    elif isinstance(values, (pd.DataFrame, memoryview)):
        values = np.asarray(values).tolist()
    return [[_plain_number(value) for value in row] for row in values]


def _plain_list(values: Any) -> list[Hashable]:
    if np.ma.is_masked(values):
        raise TypeError("masked")
    if isinstance(values, (torch.Tensor, np.ndarray, pd.Series)):
        values = values.tolist()
    labels = [
        value.item() if isinstance(value, (np.generic, torch.Tensor)) else value for value in values
    ]
    for label in labels:
        if not _equal_to_itself(label):
            raise ValueError(f"no group can be {label!r}")
    return labels


def _equal_to_itself(label: Any) -> bool:
    if isinstance(label, (tuple, frozenset)):
        return all(_equal_to_itself(part) for part in label)
    return bool(label == label)


def _plain_whole(value: Any) -> int:
    """A whole number as Python's int."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        value = value.item()
    if isinstance(value, (int, np.integer)):
        return int(value)
    raise TypeError(f"no whole number: {value!r}")
