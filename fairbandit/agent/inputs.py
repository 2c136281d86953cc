"""Checks and conversions of the arguments of agents: numbers, labels, and pools of any form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.agent.state import State, Waiting, hashed
from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError, shown, typed
from fairbandit.logs import Floats
from fairbandit.logs.events import TICKETS, Cell, Decided, Rewarded, Taken
from fairbandit.logs.schema import described
from fairbandit.notices import remark
from fairbandit.tables.encoder import Cells
from fairbandit.tables.labels import JOINED, Codes, check_labels, coded, words_of

LARGEST, SMALLEST = 1e100, 1e-100
"""The bounds of the size of numbers other than 0. The squares of larger or smaller numbers could
overflow or underflow in double precision."""

MOST = 1_000_000
"""The largest number of features, and of numbered groups."""


def numbers(values: Any, what: str) -> NDArray[Any]:
    """Returns an array of real numbers, without a copy if the values are an array already."""
    try:
        if isinstance(values, Tensor):
            values = values.double() if values.is_floating_point() else values
            array: NDArray[Any] = values.numpy(force=True)
        else:
            array = np.asarray(values)
        masked = isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values)
        if array.dtype.kind not in "biufO" or masked:
            entries = "masked entries" if masked else "entries that are not real numbers"
            raise TypeError(f"it has {'texts' if array.dtype.kind in 'SU' else entries}")
        if array.dtype.kind in "fO" and array.dtype != np.float64:
            array = array.astype(np.float64)
    except Exception as error:  # an object's own conversion may raise any error
        raise FairbanditError(
            f"{what}: expected real numbers, in rows of one length; got {typed(values)}: {error}"
        ) from error
    if array.dtype.kind == "f":
        sizes = np.abs(array)
        least = np.minimum.reduce(sizes, None, initial=1.0)
        if not (least >= SMALLEST and np.maximum.reduce(sizes, None, initial=1.0) <= LARGEST):
            good = (sizes <= LARGEST) & ((sizes >= SMALLEST) | (sizes == 0))  # False for NaN
            for at in np.argwhere(~good).tolist():
                raise FairbanditError(
                    f"{what}: expected numbers that are 0 or from {SMALLEST:g} to {LARGEST:g} in "
                    f"size, got {array[tuple(at)]}" + (f" at {at}" if at else "")
                )
    return array


def number(value: Any, what: str, least: float = -LARGEST) -> float:
    """Returns one finite number."""
    if type(value) is float and SMALLEST <= abs(value) <= LARGEST and value >= least:
        return value  # many times faster than the conversion to an array
    array = numbers(value, what)
    if array.size != 1 or array.item() < least:
        raise FairbanditError(
            f"{what}: expected one number of at least {least:g}, got {shown(value)}"
        )
    return float(array.item())


def whole(value: Any, what: str, least: int = 0, most: int | None = None) -> int:
    """Returns a whole number."""
    fits = type(value) is int or (
        isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    )
    if not fits or value < least or (most is not None and value > most):
        to = "" if most is None else f" and at most {most:,}"
        raise FairbanditError(
            f"{what}: expected a whole number of at least {least}{to}, got {shown(value)}"
        )
    return int(value)


def listed(values: Any, what: str, expected: str = "an array or a list") -> list[Any]:
    """Returns the entries of an array, tensor, series, list or tuple as plain Python objects."""
    if type(values) is list:
        return values
    values = values.to_pylist() if hasattr(values, "to_pylist") else values  # of Arrow
    entries = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(entries, (list, tuple, range)):
        raise FairbanditError(f"{what}: expected {expected}, got {typed(values)}")
    return list(entries)


def check_index(table: Any, **columns: Any) -> None:
    """Raises an error for a column of pandas whose index is not the index of its table."""
    for name, column in columns.items():
        rows: list[Any] = [getattr(data, "index", None) for data in (table, column)]
        if all(hasattr(index, "equals") for index in rows) and not rows[0].equals(rows[1]):
            raise FairbanditError(f"{name}: expected the index of the table, row by row")


def labels(values: Any, expected: str = 'labels, as in `pool["ethnicity"]`') -> list[Any]:
    """Returns the candidates' labels; labels of several columns, as in a DataFrame, are tuples."""
    if values is None:
        raise FairbanditError(f"groups: expected {expected}, since only raw rows hold their labels")
    if hasattr(values, "itertuples"):
        values = [list(row) for row in values.itertuples(index=False, name=None)]
    entries = values if type(values) is list else listed(values, "groups", expected)
    if list not in map(type, entries):
        return entries
    rows = [label if type(label) is list else [label] for label in entries]
    return [row[0] if len(row) == 1 else tuple(row) for row in rows]


@contextmanager
def of_pool(at: int) -> Iterator[None]:
    """Re-raises errors of a block with the number of the pool in their messages."""
    try:
        yield
    except FairbanditError as error:
        raise FairbanditError(f"pool {at}: {error}") from error


class Pool(NamedTuple):
    """A pool: its contexts, (K, d) float64, its labels, and the raw rows by column, if any."""

    contexts: Floats
    labels: list[Any]
    rows: Cells | None = None


class Reader(NamedTuple):
    """Reads pools of candidates with d features, with their names, if they have any."""

    features: int
    encoder: Encoder | None
    names: tuple[str, ...] | None
    reward: str | None = None

    def pool(self, contexts: Any, groups: Any, where: str = "the pool") -> Pool:
        """Returns a pool, whose contexts are a copy."""
        forms: list[Any] | None = None
        cells: Cells | None = None
        if not isinstance(contexts, (np.ndarray, Tensor)):
            check_index(contexts, groups=groups)
            of_rows = not isinstance(contexts, (list, tuple))
            of_rows = of_rows or any(isinstance(row, Mapping) for row in contexts)
            if self.encoder is not None and of_rows:
                contexts, forms, cells = self.encoder.labelled(contexts, where, groups is None)
            columns = getattr(contexts, "column_names", getattr(contexts, "columns", None))
            if columns is not None and list(columns) != list(self.names or ()):
                raise FairbanditError(
                    f"contexts: the columns are {shown(list(columns))}; an agent takes a table "
                    "only if these are its features, in this order: "
                    f"features={shown(list(self.names or columns))}"
                )
        array = numbers(contexts, "contexts")
        if not array.size:
            raise FairbanditError("contexts: the pool is empty; expected at least one candidate")
        if array.ndim != 2 or array.shape[1] != self.features:
            raise FairbanditError(
                f"contexts: expected shape (K, {self.features}), a row of {self.features} features "
                f"per candidate; got shape {array.shape}"
            )
        names = forms if groups is None and forms is not None else labels(groups)
        if len(names) != len(array):
            raise FairbanditError(
                f"groups: expected {len(array)} labels, one per candidate; got {len(names)}"
            )
        if self.encoder is not None:
            forms = self.encoder.labels_in(array) if forms is None else forms
            check_labels(names, forms, JOINED.join(self.encoder.groups), self.encoder.unknown)
        return Pool(np.array(array, dtype=np.float64), names, cells)


def is_table(contexts: Any) -> bool:
    """Whether contexts are one table, and not a list of pools."""
    return hasattr(contexts, "columns") or isinstance(contexts, Mapping)


def reader(features: Any, reward: str | None, groups: Any, unknown: Any) -> tuple[Reader, Codes]:
    """Returns the reader and the first groups of an agent, whose arguments it checks.

    The features are an encoder, names, or a number d; a number G of groups stands for 0 … G−1.
    """
    if isinstance(features, (list, tuple)) and all(isinstance(name, str) for name in features):
        if len({*features}) < max(len(features), 1):
            raise FairbanditError(f"features: expected names that differ, got {shown(features)}")
    elif not isinstance(features, Encoder):
        features = whole(features, "features", 1, MOST)
    encoder, names, d = described(features)
    if isinstance(groups, (int, np.integer)):
        groups = range(whole(groups, "groups", most=MOST))
    given, words = listed(groups, "groups"), encoder.unknown if encoder else ()
    _, codes = coded(given, Codes(words=words_of([*listed(unknown, "unknown"), *words])))
    if len(codes) < len(given):
        raise FairbanditError(f"groups: expected labels that differ, got {shown(given)}")
    return Reader(d, encoder, names, reward), codes


def named(state: State, event: Decided, id: Any, about: Any) -> Decided:
    """Returns a new decision with the caller's id and remarks."""
    if id is not None and (not isinstance(id, str) or not id):
        raise FairbanditError(f"id: expected a text, as in str(id), got {shown(id)}")
    if id is not None and state.remembered.get(*hashed(("id", id))) is not None:
        raise FairbanditError(f"the id {shown(id)} belongs to an earlier decision")
    try:
        about = msgspec.convert(about, dict[str, Cell] | None)
    except msgspec.ValidationError as error:
        raise FairbanditError(f"about: {error}; got {shown(about)}") from error
    return msgspec.structs.replace(event, id=id, about=about)


def rewarded(
    state: State, reward: Any, ticket: Any, candidate: Any
) -> tuple[Rewarded | None, Waiting | None]:
    """Returns the event of a report, and the decision if it waits; see `Agent.update`.

    A report that repeats an earlier report is not an event.
    """
    if ticket is None and not (ticket := state.own.latest % TICKETS and state.own.latest):
        raise FairbanditError("no decision waits for a reward: none was made so far")
    t, decision = state.waits(ticket)
    rewards = reward.tolist() if hasattr(reward, "tolist") else reward
    if candidate is not None:
        rewards = {whole(candidate, "candidate"): rewards}
    elif isinstance(rewards, Mapping):
        rewards = {whole(place, "candidate"): value for place, value in rewards.items()}
    complete = decision is not None and decision.open == decision.places
    if not complete and _repeats(state, t, decision, rewards):
        remark(f"the reward of ticket {t} was reported before, and changes nothing")
        return None, decision
    if decision is None and not state.is_early(t):
        decision = state.find(t)
    places = decision.places if decision else (0,)
    if isinstance(rewards, (list, tuple)) and len(rewards) == len(places) > 1:
        rewards = dict(zip(places, rewards, strict=True))
    if rewards == {} or (len(places) > 1 and not isinstance(rewards, dict)):
        raise FairbanditError(
            f"ticket {t} has {len(places)} picks: name the candidate of a reward, "
            f"update(reward, ticket, candidate={places[0]}), or give a list with all rewards in "
            f"the order of decision.picks; got {shown(reward)}"
        )
    try:
        if isinstance(rewards, dict):
            rewards = {place: number(value, "reward") for place, value in rewards.items()}
        else:
            rewards = number(rewards, "reward")
    except FairbanditError as error:
        raise FairbanditError(
            f"{error}; a ticket whose reward is not known waits until agent.drop({t})"
        ) from error
    return Rewarded(ticket=t, rewards=rewards), decision


def _repeats(state: State, ticket: int, decision: Waiting | None, rewards: Any) -> bool:
    """Whether a report repeats rewards that are known; raises an error for other rewards."""
    what = "place" if isinstance(rewards, dict) else "slot"
    if decision is not None and (what == "slot" or not {*decision.open}.isdisjoint(rewards)):
        return False
    if not isinstance(rewards, dict):
        rewards = dict(enumerate(rewards if isinstance(rewards, (list, tuple)) else [rewards]))
    names = [(ticket, what, place) for place in rewards]
    bits = [*map(state.remembered.get, hashed(*names))]
    if not bits or None in bits:
        return False
    known = np.array(bits, np.int64).view(np.float64).tolist()
    for before, value in zip(known, rewards.values(), strict=True):
        if number(value, "reward") != before:
            raise FairbanditError(
                f"ticket {ticket} does not wait for a reward: its reward was reported, and was "
                f"{before:g}; got {shown(value)}"
            )
    return True


def taken(state: State, ticket: Any, candidate: Any, instead: Any, by: Any, why: Any) -> Taken:
    """Returns the event that a candidate was taken; see `Agent.taken`."""
    for what, text in (("by", by), ("why", why)):
        if text is not None and not isinstance(text, str):
            raise FairbanditError(f"{what}: expected a text, got {shown(text)}")
    (t, _), place = state.waits(ticket), whole(candidate, "candidate")
    if instead is None:
        places = state.find(t).places
        instead = place if place in places or len(places) > 1 else places[0]
    return Taken(ticket=t, candidate=place, instead=whole(instead, "instead"), by=by, why=why)
