"""Many rounds at once: pools that come next, and rounds that another system decided."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch

from fairbandit.agent import inputs
from fairbandit.agent.inputs import Pool, Reader, numbers, of_pool
from fairbandit.agent.state import State, with_groups
from fairbandit.agent.steps import decide, moved, opened, tell_checked
from fairbandit.errors import FairbanditError, shown
from fairbandit.history import Outcomes
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.events import Decided, Observed
from fairbandit.logs.log import check_log, pieces
from fairbandit.notices import remark
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.streams import CHUNK_ROUNDS
from fairbandit.tables.labels import Codes, coded, normal, pool_codes
from fairbandit.tables.reading import read_table

POOLS_TOGETHER = CHUNK_ROUNDS // 2
"""The most pools that are decided together. Larger blocks share more work, but the rank windows of
their rounds differ more, which costs masks."""

ROUNDS_TOGETHER = 16 * CHUNK_ROUNDS
"""The number of rounds that are processed at once."""

COMPARED_ROUNDS = 5
"""The fewest observed rounds that are compared with the rounds before them."""

FAR_DEVIATIONS = 3.29
"""With probability 0.001, a normal variable is more standard deviations away from its mean."""


def read(
    reader: Reader, contexts: Any, groups: Any, pools: Any = None, where: str = "the pool"
) -> list[Pool]:
    """Returns N pools, whose contexts are copies; see `Agent.act_many`."""
    if pools is not None:
        return _split(reader, contexts, groups, pools)
    if inputs.is_table(contexts):
        raise FairbanditError(
            "contexts: expected an array or a list of pools, got one table; "
            "act_many(table, labels, pools=COLUMN) takes a column that says the pool of each row"
        )
    if not isinstance(contexts, (list, tuple)):
        contexts = numbers(contexts, "contexts")
        if contexts.ndim < 2:
            raise FairbanditError(
                f"contexts: expected an array of pools, (N, K, d), got shape {contexts.shape}"
            )
    if hasattr(groups, "itertuples"):
        groups = [[label] for label in inputs.labels(groups)]
    expected = "one list of labels for each pool"
    of_pools = (
        [None] * len(contexts) if groups is None else inputs.listed(groups, "groups", expected)
    )
    if len(of_pools) != len(contexts):
        raise FairbanditError(
            f"groups: expected the labels of {len(contexts)} pools, like the contexts; got "
            f"{len(of_pools)} pools"
        )
    if groups is not None and all(type(pool) in (np.ndarray, list) for pool in contexts):
        with suppress(Exception):  # all pools at once; if this fails, the loop names the pool
            arrays, names = [*map(np.asarray, contexts)], [*map(inputs.labels, of_pools)]
            sizes = [*map(len, arrays)]
            if [*map(len, names)] == sizes and all(sizes):
                every = [*chain.from_iterable(names)]
                return _parts(reader.pool(np.concatenate(arrays), every, where), sizes)
    pools = list[Pool]()
    for at, pool in enumerate(zip(contexts, of_pools, strict=True)):
        with of_pool(at):
            pools.append(reader.pool(*pool, where))
    return pools


def _split(reader: Reader, contexts: Any, groups: Any, pools: Any) -> list[Pool]:
    """Returns the pools of one table; `pools` holds the pool of each row, or names its column."""
    inputs.check_index(contexts, pools=pools)
    if isinstance(pools, str):
        table = contexts = read_table(contexts)
        named = {"pools": pools} | ({"groups": groups} if isinstance(groups, str) else {})
        for what, name in named.items():
            if name not in table:
                raise FairbanditError(f"{what}: the table lacks the column {shown(name)}")
        pools, groups = table[pools], table[groups] if "groups" in named else groups
        if reader.encoder is None:  # encoders ignore other columns
            contexts = table.drop(columns=sorted({*named.values()} - {*(reader.names or ())}))
    (x, names, rows), of_row = reader.pool(contexts, groups), inputs.listed(pools, "pools")
    if len(of_row) != (n := len(names)):
        raise FairbanditError(f"pools: expected the pools of {n} candidates, got {len(of_row)}")
    codes = pool_codes(of_row)
    order = codes.argsort(kind="stable").tolist()
    rows = rows and {name: [column[row] for row in order] for name, column in rows.items()}
    ordered = Pool(x[order], [names[row] for row in order], rows)
    return _parts(ordered, np.bincount(codes).tolist())


def _parts(table: Pool, sizes: Iterable[int]) -> list[Pool]:
    """Cuts the candidates of a table into consecutive pools."""
    (x, names, rows), pools, low = table, list[Pool](), 0
    for size in sizes:
        at = slice(low, low := low + size)
        pools.append(Pool(x[at], names[at], rows and {name: c[at] for name, c in rows.items()}))
    return pools


def decide_many(
    policy: Policy, state: State, pools: Sequence[Pool], picks: int
) -> tuple[State, list[Decided]]:
    """Decides N pools like N calls between which no reward comes; returns the later state."""
    codes, groups_at, groups = list[Ints](), list[Codes](), state.groups
    for at, pool in enumerate(pools):
        with of_pool(at):
            numbers, groups = coded(pool.labels, groups)
        codes.append(numbers)
        groups_at.append(groups)
    sizes, events = np.array([*map(len, codes)], np.int64), list[Decided]()
    for cut in _blocks(policy, state.history.rounds, sizes, groups_at, picks):
        groups = groups_at[cut.start]
        state, decided = decide(policy, state, groups, pools[cut], codes[cut], picks)
        state = moved(policy, state, decided)
        events += decided
    return state, events


def _blocks(
    policy: Policy, played: int, sizes: Ints, groups_at: Sequence[Codes], picks: int
) -> Iterator[slice]:
    """Cuts N pools into consecutive ones that can be decided together, as if one by one.

    Pools of a block have the same number of picks and of known groups, and a similar size. No
    decision reads the pick of another. A block ends with a chunk of rounds, after which contexts
    may be forgotten.
    """
    alike = np.stack([sizes.clip(max=picks), [*map(len, groups_at)]])
    stops = {0, *(np.flatnonzero(np.diff(alike).any(0)) + 1).tolist(), len(sizes)}
    stops |= {*range(-played % CHUNK_ROUNDS, len(sizes), CHUNK_ROUNDS)}
    for low, high in pairwise(sorted(stops)):
        step = 1 if policy.reads_picks else high - low
        for first in range(low, high, step):
            yield from pieces(sizes[first : first + step], POOLS_TOGETHER, first)


def observation(reader: Reader, contexts: Any, groups: Any, actions: Any, rewards: Any) -> Observed:
    """Returns logged rounds as an event; see `Agent.observe`."""
    where = "the observed rows"
    if inputs.is_table(contexts):
        inputs.check_index(contexts, actions=actions, rewards=rewards)
        table = reader.pool(contexts, groups, where)
        pools = _parts(table, [1] * len(table.labels))
    else:
        pools = read(reader, contexts, groups, where=where)
    if actions is None:
        if any(len(pool.labels) > 1 for pool in pools):
            raise FairbanditError(
                "actions: expected the place of the pick, as pools have several places"
            )
        actions = [0] * len(pools)
    if rewards is None:
        raise FairbanditError("rewards: expected the reward of each round, rewards=...")
    places, received = numbers(actions, "actions"), numbers(rewards, "rewards")
    if not places.shape == received.shape == (len(pools),):
        raise FairbanditError(
            f"expected actions and rewards of {len(pools)} rounds, like the contexts; got "
            f"{places.shape} and {received.shape}"
        )
    if pools and places.dtype.kind not in "iu":
        raise FairbanditError(f"actions: expected whole numbers, got {places.dtype}")
    rows = [pool.rows for pool in pools]
    return Observed(
        contexts=[pool.contexts for pool in pools],
        rows=rows if any(rows) else None,
        groups=[pool.labels for pool in pools],
        actions=places.tolist(),
        rewards=received.astype(np.float64).tolist(),
    )


def observed(policy: Policy, state: State, event: Observed) -> State:
    """Returns the state after rounds that another system decided; notes repeated rounds."""
    pools, actions, rewards = event.contexts or [], event.actions, event.rewards
    if not len(pools) == len(event.groups) == len(actions) == len(rewards):
        raise FairbanditError("its rounds have different numbers of pools, actions and rewards")
    for at, (pool, place) in enumerate(zip(pools, actions, strict=True)):
        if not 0 <= place < len(pool):
            expected = f"an action from 0 to {len(pool) - 1} in pool {at}"
            raise FairbanditError(f"expected {expected}; got action {place}")
    state, codes = with_groups(policy, state, [*chain.from_iterable(event.groups)])
    none, n = np.zeros((0, state.history.problem.features)), len(pools)
    received = np.array(rewards, np.float64)[:, None]
    log = Log(
        sizes=np.array([*map(len, pools)], np.int64),
        groups=codes,
        labels=state.groups.spellings,
        picks=np.array(actions, np.int64)[:, None],
        rewards=received,
        propensities=np.full_like(received, np.nan),
        contexts=np.concatenate([none, *pools]),
        probabilities=None,
        features=(),
        names=[""] * n,
    )
    compared, get = state.learned and n >= COMPARED_ROUNDS, state.remembered.get
    known = sum(get(key) is not None for key, _ in log.pick_keys) if compared else 0
    if known > n / 2:
        remark(
            f"{known / n:.0%} of the observed rounds equal rounds that were observed before; if "
            "they are the same, they count again"
        )
    return after_log(policy, state, log)


def options_of(log: Log) -> dict[str, Any]:
    """Returns the arguments of an agent that learns from a log."""
    check_log(log)
    if log.contexts is None:
        raise FairbanditError("an agent cannot learn from a log without contexts")
    features = log.encoder or log.schema.names or log.schema.width
    return {"groups": log.labels, "features": features, "reward": log.reward}


@torch.inference_mode()
def after_log(policy: Policy, state: State, log: Log) -> State:
    """Returns the state after the decisions of a log; both number the groups alike."""
    assert log.contexts is not None
    for cut in pieces(log.sizes, ROUNDS_TOGETHER):  # of similar pools
        part, first = log[cut], state.history.rounds + 1
        assert part.contexts is not None
        history = opened(policy, state, part.sizes, part.contexts, part.groups).history
        at, slots = np.nonzero(~np.isnan(part.rewards))
        if len(at):
            places, received = part.picks[at, slots], part.rewards[at, slots][None]
            rows = part.starts[at] + places
            outcomes = at + first, part.contexts[rows][None], part.groups[rows][None], received
            history = tell_checked(policy, history, Outcomes(*map(torch.from_numpy, outcomes)))
        history = policy.close(history, Selection.of(torch.from_numpy(part.picks)[None]))
        state = state.after(rounds=len(part), history=history)
    keys = [key for key, _ in log.pick_keys]
    remembered = state.remembered.plus(dict.fromkeys(keys, 0))
    return state._replace(learned=state.learned + len(keys), remembered=remembered)


def probabilities(
    policy: Policy, state: State, contexts: Floats, groups: Ints, labels: Sequence[Any], picks: int
) -> Floats:
    """Returns the candidates' probabilities in n pools, (n, K), as if each pool came next."""
    state, codes = with_groups(policy, state, labels)
    groups = np.append(codes, -1)[groups]
    x, g = torch.from_numpy(contexts)[None], torch.from_numpy(groups)[None]
    cuts = [slice(low, low + 4 * CHUNK_ROUNDS) for low in range(0, len(groups), 4 * CHUNK_ROUNDS)]
    inclusion = [torch.zeros_like(x[:, :0, :, 0])]
    inclusion += [policy.probabilities(state.numbered, x[:, at], g[:, at], picks) for at in cuts]
    return torch.cat(inclusion, 1)[0].numpy()


def note_order(policy: Policy, labels: Sequence[Any], rewards: Floats) -> None:
    """Notes n observed rounds of one candidate each that are sorted, by group or by reward.

    This matters to a policy that learns from early rounds and ranks among later candidates. Under a
    random order, the mean of the first h = n/2 values is √((1 − h/n)/h)·S away from the mean of
    all, where S is their standard deviation. The notice names the values that are farthest away, if
    this is beyond `FAR_DEVIATIONS` times that distance: the rewards, or the indicators of a group.
    """
    n, h = len(rewards), len(rewards) // 2
    plan = policy.plan(n + 1, 1)
    if not h or not policy.learns or plan.n_train[0] == n == plan.rank_stop[0] - plan.rank_start[0]:
        return
    names = np.array([normal(label) for label in labels])
    series = {f"share of group {name!r}": names == name for name in dict.fromkeys(names.tolist())}
    farthest, what = FAR_DEVIATIONS, ""
    for name, values in {"mean reward": rewards, **series}.items():
        early, mean, deviation = values[:h].mean(), values.mean(), values.std(ddof=1)
        distance = abs(early - mean) / (deviation * math.sqrt((1 - h / n) / h) or 1)
        if distance > farthest:
            farthest = distance
            what = f"the {name} is {early:.3g} in their first half, and {mean:.3g} in all"
    if what:
        remark(
            f"the observed rounds seem sorted: {what}; this policy learns from early rounds and "
            "ranks among later ones, so shuffle them, as by table.sample(frac=1, random_state=0)"
        )
