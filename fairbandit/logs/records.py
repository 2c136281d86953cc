"""What the lines of agents' logs hold, and the options of agents: types and ranges, for msgspec."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from fairbandit.formats import Count, Natural, Sha256, Share

SCHEMA = 1
"""The version of what lines say; logs of other versions are refused."""

Label = None | bool | int | float | str | list[Any]
"""A group label; tuples are lists in JSON."""

_Number = Annotated[float, Meta(ge=-1e100, le=1e100)]
_Pool = list[list[_Number]]
_Version = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z.+-]{1,40}\Z")]


class _Encoder(TypedDict):
    columns: list[list[str | bool | list[str | float]]]  # see `environments.encoder.Column`
    bias: bool
    fill: bool
    decimal: str
    groups: NotRequired[list[str]]
    missing: NotRequired[list[str]]


class Options(TypedDict):
    """The options of an agent, as logs and files hold them."""

    features: Natural | list[str] | _Encoder
    reward: NotRequired[str]
    groups: list[Label]
    seed: Annotated[int, Meta(ge=0)]
    exploration: float
    patience: Natural | None


class _Part(TypedDict):
    name: str


class _Policy(TypedDict):
    estimator: _Part


class _Header(TypedDict):
    schema: Literal[1]
    version: _Version
    config: _Policy
    options: Options
    contexts: NotRequired[bool]
    agent: Sha256 | None
    erased: NotRequired[Natural]
    before: NotRequired[Sha256]


class _Ticket(TypedDict):
    ticket: Count


class _Decision(_Ticket):
    groups: Annotated[list[Label], Meta(min_length=1)]
    probabilities: list[Share]
    picks: Annotated[list[Natural], Meta(min_length=1)]
    contexts: NotRequired[_Pool]


class _Reward(_Ticket):
    reward: _Number | list[_Number]
    candidate: NotRequired[list[Natural]]


class _Observed(TypedDict):
    groups: list[list[Label]]
    actions: list[Natural]
    rewards: list[_Number]
    contexts: NotRequired[list[_Pool]]


HEADER = {"header": _Header}
RECORDS = {"decision": _Decision, "reward": _Reward, "drop": _Ticket, "observed": _Observed}
"""What the first line of a log, and what later ones may be, by their `kind`."""
