"""The events of an agent: each is a line of its log, and the agent's state is their fold.

The types are the schema: a line that does not fit them is refused where it is read.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any, NotRequired

import msgspec
import numpy as np
from msgspec import Meta

from fairbandit.errors import FairbanditError
from fairbandit.files.formats import Count, Natural, Number, Plain, Sha256, Share, mapping
from fairbandit.tables import encoded
from fairbandit.tables.labels import group_label

SCHEMA = 2
"""The version of the lines that are written. Lines of version 1 are read, too."""

_Texts = NotRequired[list[str]]
_Column = encoded.Number | encoded.Category | encoded.Product | list[Any]  # a list in older logs
_Encoder: Any = mapping(
    columns=list[_Column],
    bias=bool,
    fill=bool,
    decimal=str,
    products=NotRequired[list[tuple[str, str, list[float], list[float]]]],
    **dict.fromkeys(["groups", "missing", "labels", "unknown"], _Texts),
)

Options: Any = mapping(
    features=Natural | list[str] | _Encoder,
    reward=NotRequired[str],
    unknown=_Texts,
    groups=list[bool | int | float | str | list[Any] | None],  # tuples are lists in JSON
    seed=Annotated[int, Meta(ge=0)],
    exploration=float,
    patience=Natural | None,
    shadow=NotRequired[bool],
)
"""The options of an agent, as logs and files hold them."""

_Part: Any = mapping(name=str)
_CONFIG: Any = mapping(name=str, split=_Part, estimator=_Part, rank=_Part, selector=_Part)

TICKETS = 10**9  # the tickets of worker w are w·TICKETS + 1, w·TICKETS + 2, …

Ticket = Annotated[int, Meta(ge=1, le=2**53)]
Cell = str | int | float | bool | None
Rows = dict[str, list[Cell]]  # the raw rows of a pool by column
Array = np.ndarray


class Line(msgspec.Struct, tag_field="kind", omit_defaults=True, kw_only=True):
    """The fields of all lines: the time in ISO 8601, and the hash of the line before."""

    time: str | None = None
    previous: Sha256 | None = None


class Header(Line, tag="header"):
    """The first line of a log: the agent, and the hash of the file it was loaded from, if any."""

    schema: Annotated[int, Meta(ge=1, le=SCHEMA)]
    version: Annotated[str, Meta(pattern=r"\A[0-9A-Za-z.+-]{1,40}\Z")]
    config: Plain
    options: Plain
    agent: Sha256 | None
    contexts: bool = True
    rounds: Natural = 0
    worker: Natural = 0
    erased: Natural = 0
    before: Sha256 | None = None


class Decided(Line, tag="decided", kw_only=True):
    """A decision about a pool of K candidates, whose contexts are (K, d), or None if left out.

    `rows` are the raw rows from which an encoder made the contexts. `places` is the number of picks
    that was asked for, if some of the places may stay open.
    """

    ticket: Ticket
    contexts: Array | None = None
    rows: Rows | None = None
    groups: list[Any]
    probabilities: list[Share]
    picks: tuple[Natural, ...]
    places: Count | None = None
    id: str | None = None
    about: dict[str, Cell] | None = None


class Taken(Line, tag="taken"):
    """A person took a candidate in place of a pick, or confirmed a pick; see `Agent.taken`."""

    ticket: Ticket
    candidate: Natural
    instead: Natural
    by: str | None = None
    why: str | None = None


class Rewarded(Line, tag="rewarded"):
    """Rewards of a decision by place, or the reward of its single pick."""

    ticket: Ticket
    rewards: Number | dict[Natural, Number]


class Dropped(Line, tag="dropped"):
    """The agent no longer waits for the rewards of a decision."""

    ticket: Ticket


class Observed(Line, tag="observed", kw_only=True):
    """n rounds that another system decided: pools (Kᵢ, d), their labels, picks and rewards."""

    contexts: list[Array] | None = None
    rows: list[Rows | None] | None = None
    groups: list[list[Any]]
    actions: list[Natural]
    rewards: list[Number]


class Opened(Line, tag="opened"):
    """An opening begins: places for candidates whose number has a law."""

    ticket: Ticket
    name: str
    places: Count
    count: str | list[float]
    candidates: Natural | None


class Offered(Line, tag="offered", kw_only=True):
    """A candidate of an opening, (1, d), with the label of the group and the decision."""

    ticket: Ticket
    contexts: Array | None = None
    rows: Rows | None = None
    groups: list[Any]
    probability: Share
    taken: bool


class Closed(Line, tag="closed"):
    """An opening ends."""

    ticket: Ticket


class Refreshed(Line, tag="refreshed"):
    """A worker took up a saved agent, whose file has this SHA-256."""

    agent: Sha256


Event = Decided | Taken | Rewarded | Dropped | Observed | Opened | Offered | Closed | Refreshed


def tickets_of(event: Decided | Opened | Offered) -> set[int | str]:
    """Returns the ticket of a decision, and the id of the caller if it has one."""
    named = event.id if isinstance(event, Decided) else None
    return {event.ticket} if named is None else {event.ticket, named}


def label(plain: Any) -> Hashable:
    """Returns a group label of a line; JSON holds a tuple as a list."""
    return tuple(map(label, plain)) if isinstance(plain, list) else plain


def check_label(given: Any) -> None:
    """Raises an error for a label of a group that JSON does not hold."""
    if isinstance(given, tuple):
        for part in given:
            check_label(part)
    elif type(given) not in (str, int, float, bool, type(None)) or given in (np.inf, -np.inf):
        raise FairbanditError(
            f"cannot write to the log: got the label {given!r}; a group label must be a text, a "
            "finite number, a boolean, None or a tuple of such labels"
        )


def body_of(event: Line) -> bytes:
    """Returns an event as JSON, whose floats are read back exactly."""
    try:
        return _ENCODER.encode(event)
    except (OverflowError, TypeError, UnicodeError, ValueError) as error:
        raise FairbanditError(f"cannot write to the log: {error}") from error


def event_of(line: bytes) -> Line:
    """Returns the event of a line; a line that does not fit the types raises an error."""
    if line.startswith(b'{"kind": '):
        record = msgspec.json.decode(line, type=Plain)
        event = msgspec.convert(_renewed(record), _LINES, dec_hook=_array)
    else:
        event = _DECODER.decode(line)
    if isinstance(event, Header):
        msgspec.convert(event.config, _CONFIG)
        msgspec.convert(event.options, Options)
        msgspec.json.encode(event.options)  # half of a surrogate pair raises an error
    elif isinstance(event, Decided | Offered):
        event.groups[:] = map(label, event.groups)
    elif isinstance(event, Observed):
        for pool in event.groups:
            pool[:] = map(label, pool)
    return event


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else group_label(value)


def _array(kind: Any, rows: Any) -> Any:
    return np.array(msgspec.convert(rows, list[list[Number]]), np.float64, ndmin=2)


_LINES: Any = Header | Event
_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
_DECODER = msgspec.json.Decoder(_LINES, dec_hook=_array)

_KINDS = {"decision": "decided", "reward": "rewarded", "drop": "dropped", "offer": "offered"}


def _renewed(record: Plain) -> Plain:
    """Returns a line of version 1 with the kind and the fields of this version."""
    kind = record["kind"]
    record = {**record, "kind": _KINDS.get(kind, kind)}
    if kind == "reward":
        rewards, places = record["reward"], record.get("candidate")
        record["rewards"] = dict(zip(places, rewards, strict=True)) if places else rewards
    elif kind == "offer":
        (record["probability"],), record["taken"] = record["probabilities"], bool(record["picks"])
    return record
