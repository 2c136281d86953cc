"""The checks that compare plays. The name of a check is the requirement in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.purity import changes_nothing_but_what_it_returns
from fairbandit.conformance.world import (
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
    same,
)
from fairbandit.files.state import packed, unpacked
from fairbandit.policy.fixed_point import outcomes_of
from fairbandit.selectors import Selection

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


relation(*KINDS)(changes_nothing_but_what_it_returns)


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
    for setting in SETTINGS:
        block, single = (play(kind, spec, setting, piece=n).results for n in (ROUNDS, 1))
        same("rounds in blocks and one at a time", block, single)


@relation(*DECIDES, "metric")
def ignores_slots_that_stay_empty(kind: str, spec: Spec) -> str | None:
    """Two and four picks from pools of at most two candidates are the same."""
    few, many = (play(kind, spec, ("halves", m), small_every=1) for m in (2, 4))
    present = few.engine.environment.pools(1, ROUNDS).groups >= 0
    if bool((few.results["probability"] < present).any()):
        return "it may leave places open, so that their number matters"
    del few.results["pick"]  # it has more slots in the other play
    same("two picks and four picks from small pools", few.results, many.results)
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
