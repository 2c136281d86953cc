"""Damaged and crafted files: agents, checkpoints, row files, summaries.

A file whose bytes were damaged must be refused, or give exactly what the whole file gives. A file
that was crafted, with every checksum right, may be accepted where its content makes sense, and
must be refused with one clear message where it does not.
"""

import copy
import json
import math
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch

from fairbandit import Agent
from fairbandit.audit.picks import read_picks
from fairbandit.engine import Engine
from fairbandit.errors import FairbanditError
from fairbandit.metrics import Played
from fairbandit.results import read_runs
from fairbandit.run import state
from fairbandit.run.checkpoint import VARIABLE
from fairbandit.run.execute import execute
from fairbandit.run.folder import CHECKPOINT
from fairbandit.run.summary import checksum, finite
from tests.agent import worlds
from tests.fuzz.harness import Fault, FoundError, Subject
from tests.killing import outcome

PLAIN: tuple[Any, ...] = (
    *(0, 1, -1, 2**31, 2**63, 10**30, 0.5, math.nan, math.inf, True, None, "", "x", "cuda:0"),
    *("cuda:99", "meta", "ridge", "simulation", "census_gender", "table", "../x", "[red]", "\x00"),
)

RUN = {
    "policy": {"name": "greedy", "split": "full", "estimator": "ridge", "rank": "identity"},
    "environment": {"name": "simulation"},
    "rounds": 260,
    "replicas": 2,
}
"""The second piece of its rounds is short."""


class Files(Subject):
    """Every kind of file that the package reads back."""

    name = "files"
    share = 0.25
    limit = 10.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._agents = [self._agent(config) for config in ("fair_greedy", "oful", "greedy")]
        self._run = folder / "run"
        execute(RUN, self._run, progress=False)
        self._cut = folder / "cut"
        _cut_off(self._cut)
        self._kinds: tuple[Callable[[random.Random, Path], None], ...] = (
            self._damaged_agent,
            self._crafted_agent,
            self._crafted_agent,
            self._damaged_run,
            self._crafted_summary,
            self._checkpoint,
        )

    def attempt(self, number: int) -> None:
        """One file of some kind, damaged or crafted."""
        draw, place = self.source(number), self.folder / str(number)
        place.mkdir()
        try:
            draw.choice(self._kinds)(draw, place)
        finally:
            shutil.rmtree(place)

    def _agent(self, config: str) -> Path:
        path = self.folder / f"{config}.safetensors"
        agent = Agent.from_config(
            config, features=2, groups=["a", ("b", 1), None], seed=0, refresh=1.5, patience=9
        )
        for t in range(12):
            agent.act([[t, 1.0], [0.5, -t], [t / 3, 2.0]], ["a", ("b", 1), "late"])
            if t % 3:
                agent.update(t / 7)
        agent.save(path)
        return path

    def _damaged_agent(self, draw: random.Random, place: Path) -> None:
        whole = draw.choice(self._agents)
        path = place / whole.name
        path.write_bytes(_damaged(draw, whole.read_bytes()))
        if worlds.held(Agent.load(path)) != worlds.held(Agent.load(whole)):
            raise FoundError(Fault.value, "a damaged file gives another agent")

    def _crafted_agent(self, draw: random.Random, place: Path) -> None:
        content = state.read(draw.choice(self._agents))
        for _ in range(draw.choice([1, 1, 1, 2, 5])):
            content = _crafted(draw, content)
        path = place / "agent.safetensors"
        _write(content, path)
        before = sorted(place.parent.iterdir())
        agent = Agent.load(path)
        if sorted(place.parent.iterdir()) != before:
            raise FoundError(Fault.state, "loading made a file")
        agent.act([[1.0, 2.0]], ["a"])
        agent.update(1.0)
        agent.save(path)

    def _damaged_run(self, draw: random.Random, place: Path) -> None:
        run = place / "run"
        shutil.copytree(self._run, run)
        files = [*run.rglob("*.parquet"), run / "summary.json"]
        path = draw.choice(files)
        path.write_bytes(_damaged(draw, path.read_bytes()))
        for read in (_summaries, read_picks):
            found, right = read([run]), read([self._run])
            if _told(found) != _told(right):
                raise FoundError(Fault.value, f"a damaged {path.name} gives other values")

    def _crafted_summary(self, draw: random.Random, place: Path) -> None:
        run = place / "run"
        shutil.copytree(self._run, run)
        path = run / "summary.json"
        content = json.loads(path.read_text())
        for _ in range(draw.choice([1, 1, 3])):
            content = _crafted(draw, content)
        if isinstance(content, dict):
            content |= {"checksum": checksum(finite(content))}
        path.write_text(json.dumps(content))
        read_runs([run])
        read_picks([run])

    def _checkpoint(self, draw: random.Random, place: Path) -> None:
        run = place / "run"
        shutil.copytree(self._cut, run)
        path = run / CHECKPOINT
        damaged = draw.random() < 0.5
        if damaged:
            path.write_bytes(_damaged(draw, path.read_bytes()))
        else:
            _write(_crafted(draw, state.read(path)), path)
        execute(RUN, run, progress=False)
        if damaged and outcome(run) != outcome(self._run):
            raise FoundError(Fault.value, "a damaged checkpoint leads to other results")


class Killed(KeyboardInterrupt):
    """Stands for SIGKILL: what a run does on errors, it does not do on this one."""


def _cut_off(folder: Path) -> None:
    """A run that ends after its first piece, and leaves a checkpoint."""
    play, often = Engine.play, os.environ.get(VARIABLE)

    def stops(self: Engine) -> Iterator[Played]:
        pieces = play(self)
        yield next(pieces)
        raise Killed

    Engine.play = stops  # type: ignore[method-assign]
    os.environ[VARIABLE] = "0"
    try:
        execute(RUN, folder, progress=False)
    except Killed:
        pass
    finally:
        Engine.play = play  # type: ignore[method-assign]
        del os.environ[VARIABLE]
        if often is not None:
            os.environ[VARIABLE] = often


def _write(content: Any, path: Path) -> None:
    try:
        state.write(state.Packed(content), path)
    except (TypeError, ValueError, OverflowError) as error:
        raise FairbanditError(f"no file can hold this: {error}") from error


def _damaged(draw: random.Random, content: bytes) -> bytes:
    """The bytes with a flipped bit, cut, or with a piece overwritten, doubled or taken out."""
    at = draw.randrange(len(content))
    width = min(draw.choice([1, 8, 100]), len(content) - at)
    piece = content[at : at + width]
    how = draw.choice(["flip", "flip", "cut", "zeros", "noise", "double", "out", "empty", "longer"])
    if how == "flip":
        return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
    if how == "cut":
        return content[:at]
    if how == "zeros":
        return content[:at] + bytes(width) + content[at + width :]
    if how == "noise":
        return content[:at] + draw.randbytes(width) + content[at + width :]
    if how == "double":
        return content[:at] + piece + content[at:]
    if how == "out":
        return content[:at] + content[at + width :]
    return b"" if how == "empty" else content + draw.randbytes(width)


def _crafted(draw: random.Random, content: Any) -> Any:
    """The nested data with one place changed."""
    content = copy.deepcopy(content)
    places = list(_places(content))
    holder, key = draw.choice(places)
    value = holder[key]
    how = draw.choice(["plain", "plain", "plain", "gone", "nest", "swap", "tensor"])
    if how == "gone":
        del holder[key]
    elif how == "nest":
        for _ in range(draw.choice([1, 3, 50])):
            value = [value]
        holder[key] = value
    elif how == "swap":
        other, where = draw.choice(places)
        holder[key] = copy.deepcopy(other[where])
    elif how == "tensor" and isinstance(value, torch.Tensor):
        holder[key] = draw.choice(
            [value[..., :0], value.flatten(), value.float(), value * math.nan, value.long() - 10**9]
        )
    else:
        holder[key] = draw.choice(PLAIN)
    return content


def _places(content: Any) -> Any:
    """Every entry of nested mappings and lists, as its holder and key."""
    entries: Any = ()
    if isinstance(content, dict):
        entries = content.items()
    elif isinstance(content, list):
        entries = enumerate(content)
    for key, value in entries:
        yield content, key
        yield from _places(value)


def _summaries(folders: Sequence[Path]) -> list[Mapping[str, Any]]:
    return [run.summary for run in read_runs(folders)]


def _told(value: Any) -> str:
    """All that a reader found, to the last digit."""
    if isinstance(value, torch.Tensor):
        return repr(value.tolist())
    if is_dataclass(value):
        return repr([_told(getattr(value, field.name)) for field in fields(value)])
    if isinstance(value, (list, tuple)):
        return repr([_told(item) for item in value])
    return repr(value)
