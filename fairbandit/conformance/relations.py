"""The checks of plays. The name of a check is the requirement in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import replace
from functools import partial, wraps
from io import StringIO
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.world import (
    GLOBALS,
    REPLICAS,
    ROUNDS,
    SETTINGS,
    ConformanceError,
    Play,
    Results,
    Spec,
    made,
    play,
    refuse,
    restored,
    same,
)
from fairbandit.errors import FairbanditError
from fairbandit.files.state import packed, unpacked
from fairbandit.policy.fixed_point import outcomes_of
from fairbandit.selectors import Selection
from fairbandit.streams import Purpose, Streams

Check = Callable[[str, Spec], str | None]
"""Takes a kind and a part, and raises `ConformanceError` with the reason if the check fails.
Returns None, or the reason why the check does not apply."""

DECIDES = (*registry.PART_KINDS, "policy")  # the kinds that take part in decisions
KINDS = (*registry.KINDS, "policy")
"""The kinds of parts, and policies."""

CHECKS: dict[Check, tuple[str, ...]] = {}
"""The kinds that have to pass each check, the simplest check first."""


def relation(*kinds: str) -> Callable[[Check], Check]:
    """Makes a function a check of parts of the given kinds."""

    def register(check: Check) -> Check:
        CHECKS[check] = kinds
        return check

    return register


@relation(*registry.KINDS)
def can_be_built_from_its_name_and_its_description(kind: str, spec: Spec) -> None:
    """The class also has a docstring."""
    described = registry.describe(part := registry.create(kind, spec))
    if not type(part).__doc__:
        raise ConformanceError("the class lacks a docstring; expected a description of the part")
    if (again := registry.describe(registry.create(kind, described))) != described:
        fault = "a part built from its own description differs"
        raise ConformanceError(f"{fault}: {described} became {again}")


@relation(*KINDS)
def plays_one_to_three_picks(kind: str, spec: Spec) -> None:
    """The public methods of a part refuse what breaks their contract."""
    for setting in SETTINGS:
        play(kind, spec, setting)


@relation(*KINDS)
def changes_nothing_but_what_it_returns(kind: str, spec: Spec) -> None:
    """The given tensors, the part, settings and generators do not change; nothing is printed."""
    with restored(), _silent("playing"):
        torch.set_num_threads(3)  # a number that a part would not choose
        tested = _watched("__init__", partial(made, kind, spec))()
        parts = tested.parts.values() if kind == "policy" else [tested]
        before = [repr(vars(part)) for part in parts]
        for part in parts:
            cls, contract = type(part), registry.base_of(part._kind)
            methods = {
                name: _watched(name, method)
                for name, method in inspect.getmembers(cls, inspect.isfunction)
                if method is not getattr(contract, name, method)
            }
            part.__class__ = type(cls.__name__, (cls,), methods)
        for setting in SETTINGS:
            play(kind, tested, setting, rounds=16)
        for part, old in zip(parts, before, strict=True):
            if part._kind != "environment" and repr(vars(part)) != old:
                raise ConformanceError(
                    f"playing changes the part's attributes from {old} to {vars(part)}; expected "
                    "only the constructor's arguments, unchanged"
                )


@relation(*KINDS)
def gives_a_replica_the_same_results_alone_and_in_company(kind: str, spec: Spec) -> None:
    """One part plays all runs, so that it cannot keep anything of an earlier run either."""
    part = made(kind, spec)
    for setting in SETTINGS[:2]:
        company = play(kind, part, setting).results
        alone = [play(kind, part, setting, replicas=[b]).results for b in range(REPLICAS)]
        joined = {name: torch.cat([results[name] for results in alone]) for name in company}
        same("a replica in company and alone", company, joined)


@relation(*KINDS)
def gives_a_round_the_same_results_alone_and_in_a_block(kind: str, spec: Spec) -> None:
    """A round reads other rounds of its block only as the past."""
    longest = 7 if kind == "metric" else ROUNDS  # sums must also survive a block of several rounds
    for setting in SETTINGS:
        block, single = (play(kind, spec, setting, piece=n).results for n in (longest, 1))
        same("rounds in blocks and one at a time", block, single)


@relation(*DECIDES, "metric")
def ignores_slots_that_stay_empty(kind: str, spec: Spec) -> str | None:
    """Two and four picks from pools of at most two candidates are the same."""
    two, four = (play(kind, spec, ("halves", m), small_every=1) for m in (2, 4))
    present = two.engine.environment.pools(1, ROUNDS).groups >= 0
    if bool((two.results["probability"] < present).any()):
        return "it may leave places open, so that their number matters"
    del two.results["pick"]  # it has more slots in the other play
    same("two picks and four picks from small pools", two.results, four.results)
    return None


@relation(*DECIDES)
def counts_late_rewards_like_those_in_time(kind: str, spec: Spec) -> None:
    """A reward may come after rewards of later rounds, one pick at a time."""
    _decides_alike(kind, spec, "rewards that come late and in time", late=(2, 7, ROUNDS - 3))


@relation(*DECIDES)
def accepts_a_group_that_comes_later(kind: str, spec: Spec) -> None:
    """Nothing depends on whether a group is known before its first candidate."""
    _decides_alike(kind, spec, "a group that comes late and in time", grows=True)


@relation(*DECIDES)
def continues_from_its_saved_state(kind: str, spec: Spec) -> None:
    """An agent continues as if it had never stopped."""
    _decides_alike(kind, spec, "an agent that was saved and one that never stopped", saved=True)


def _decides_alike(kind: str, spec: Spec, label: str, **change: Any) -> None:
    for setting in SETTINGS[:2]:
        played = play(kind, spec, setting, rare_after=ROUNDS // 2)
        first, second = _next_round(played), _next_round(played, **change)
        same(f"for {setting[1]} picks, {label}", first, second, start=ROUNDS + 1)


def _next_round(
    played: Play, late: tuple[int, ...] = (), grows: bool = False, saved: bool = False
) -> Results:
    """Rewards of the rounds `late` come last. An agent that `grows` does not know the last group in
    the first half of the rounds, and one that is `saved` continues from its state after them.
    """
    results, policy, engine = played
    problem, picks = engine.history.problem, results["pick"].long().view(REPLICAS, ROUNDS, -1)
    pools = engine.environment.pools(1, ROUNDS + 1)
    outcomes, m = outcomes_of(1, pools[:ROUNDS], Selection.of(picks)), picks.shape[2]
    history = policy.init(replace(problem, groups=problem.groups - grows))
    for t in range(ROUNDS):
        if grows and t == ROUNDS // 2:
            history = policy.grow(history, problem)
        if saved and t == ROUNDS // 2:
            history = policy.init(problem).restored(unpacked(packed(history.saved())))
        history = policy.open(history, pools.contexts[:, t : t + 1], pools.groups[:, t : t + 1])
        history = policy.close(history, Selection.of(picks[:, t : t + 1]))
        if t + 1 not in late:
            history = policy.tell(history, outcomes.rows(m * t, m * t + m))
    for slot in [m * t - n for t in reversed(late) for n in range(1, m + 1)]:
        history = policy.tell(history, outcomes.rows(slot, slot + 1))
    last = pools[ROUNDS:]
    policy.propose(policy.open(history, last.contexts, last.groups), m)
    return policy.results(ROUNDS + 1, ROUNDS + 1)


@relation(*DECIDES)
def reads_no_reward_after_the_last_that_it_declares(kind: str, spec: Spec) -> None:
    """The plan says which reward a round reads last: its column `reads`, which ascends."""
    for setting in SETTINGS[:2]:
        calm = play(kind, spec, setting, piece=1)
        last = torch.from_numpy(calm.policy.plan(1, ROUNDS).reads)
        ascends("reads", last)
        for after in (5, 17):
            blind = int((last <= after).sum())  # rounds that read no later reward
            upset = play(kind, spec, setting, piece=1, rounds=blind, upset_after=after)
            before = {name: values[:, :blind] for name, values in calm.results.items()}
            label = f"rewards that differ after round {after}, the last that the policy declares,"
            same(label, before, upset.results)


def ascends(name: str, column: Tensor) -> None:
    """Raises an error at the first round, from 2, whose value is below the one before."""
    before, after = column[:-1], column[1:]
    refuse(after < before, f"`{name}` decreases", ("round",), 2, before=before, after=after)


_COMPUTED = ("rounds", "rank_window", "outcomes", "past", "count", "moments")


def _watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*given: Any, **options: Any) -> Any:
        arguments = inspect.signature(method).bind(*given, **options).arguments
        arguments.pop("self", None)
        before = contents(arguments)
        with _silent(f"`{name}`"):
            result = method(*given, **options)
        # a tensor with several names goes by the shortest
        for label, content in sorted(contents(arguments).items(), key=lambda item: len(item[0])):
            if content != before.get(label, content):
                raise ConformanceError(
                    f"`{name}` changes {label}; expected unchanged values and settings: work on a "
                    "`.clone()`, and draw from the problem's streams"
                )
        return result

    return call


def contents(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The global settings and the tensors among some arguments, by their names in messages."""
    seen_values = {name: _content(read()) for name, (read, _) in GLOBALS.items()}
    for key, value in arguments.items():
        for path, tensor in _tensors(key, value):
            seen_values[f"`{path}`, which it was given"] = _content(tensor)
    return seen_values


def _tensors(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    inside: dict[str, Any] = {}
    if isinstance(value, (Tensor, np.ndarray)):
        yield path, value
    elif isinstance(value, Streams):
        kept = {p: value[p]._kept for p in Purpose}  # other rounds have another label
        inside = {f"[{p.name}].uniform{key}": drawn for p, (key, drawn) in kept.items()}
    elif hasattr(value, "_fields"):
        inside = {f".{name}": item for name, item in value._asdict().items()}
    elif isinstance(value, (list, tuple)):
        inside = {f"[{n}]": item for n, item in enumerate(value)}
    elif any(cls.__module__.startswith("fairbandit.") for cls in type(value).__mro__):
        for name in (*(name for name in vars(value) if name[0] != "_"), *_COMPUTED):
            with suppress(FairbanditError):  # past contexts that no part needs
                inside[f".{name}"] = getattr(value, name, None)
    for name, item in inside.items():
        yield from _tensors(f"{path}{name}", item)


def _content(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if not isinstance(value, Tensor):
        return repr(value)
    values = value.detach().cpu().numpy().tobytes()
    version = None if value.is_inference() else value._version
    return version, value.requires_grad, value.shape, values


@contextmanager
def _silent(what: str) -> Iterator[None]:
    with redirect_stdout(StringIO()) as out:
        yield
    if text := out.getvalue():
        raise ConformanceError(f"{what} prints {text[:40]!r}; expected no output")
