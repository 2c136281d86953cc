"""Types of the lines of agents' logs and of the options of agents, for msgspec."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from msgspec import Meta

from fairbandit.files.formats import Count, Natural, Plain, Sha256, mapping

SCHEMA = 1
"""The version of the lines; logs of other versions are refused."""

_Texts = NotRequired[list[str]]
_Columns = list[list[str | bool | list[str | float]]]  # see `tables.encoded.Column`
_Encoder: Any = mapping(
    columns=_Columns,
    bias=bool,
    fill=bool,
    decimal=str,
    groups=_Texts,
    missing=_Texts,
    labels=_Texts,
    unknown=_Texts,
    products=NotRequired[list[tuple[str, str, list[float], list[float]]]],
)

Options: Any = mapping(
    features=Natural | list[str] | _Encoder,
    reward=NotRequired[str],
    unknown=_Texts,
    groups=list[bool | int | float | str | list[Any] | None],  # tuples are lists in JSON
    seed=Annotated[int, Meta(ge=0)],
    exploration=float,
    patience=Natural | None,
)
"""The options of an agent, as logs and files hold them."""

HEADER = mapping(
    kind=Literal["header"],
    schema=Annotated[int, Meta(ge=SCHEMA, le=SCHEMA)],
    version=Annotated[str, Meta(pattern=r"\A[0-9A-Za-z.+-]{1,40}\Z")],
    config=Plain,
    options=Options,
    agent=Sha256 | None,
)
"""The first line of a log."""

_Kind = Literal["decision", "opened", "offer", "closed", "reward", "drop", "observed"]

RECORD = mapping(kind=_Kind, ticket=NotRequired[Count])
"""Every later line; a reader checks the entries that it uses."""
