"""Types and ranges of the lines of agents' logs and of the options of agents, for msgspec."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from msgspec import Meta

from fairbandit.formats import Count, Natural, Number, Plain, Sha256, Share, mapping

SCHEMA = 1
"""The version of what lines say; logs of other versions are refused."""

_Labels = list[bool | int | float | str | list[Any] | None]  # tuples are lists in JSON
_Pool = list[list[Number]]
_Pools = NotRequired[list[_Pool]]
_Some = Meta(min_length=1)
_Texts = NotRequired[list[str]]
_Version = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z.+-]{1,40}\Z")]

_Columns = list[list[str | bool | list[str | float]]]  # see `environments.encoder.Column`
_Encoder: Any = mapping(
    columns=_Columns, bias=bool, fill=bool, decimal=str, groups=_Texts, missing=_Texts
)

Options: Any = mapping(
    features=Natural | list[str] | _Encoder,
    reward=NotRequired[str],
    groups=_Labels,
    seed=Annotated[int, Meta(ge=0)],
    exploration=float,
    patience=Natural | None,
)
"""The options of an agent, as logs and files hold them."""

HEADER = {"header": mapping(version=_Version, config=Plain, options=Options, agent=Sha256 | None)}
RECORDS = {
    "decision": mapping(
        ticket=Count,
        groups=Annotated[_Labels, _Some],
        probabilities=list[Share],
        picks=Annotated[list[Natural], _Some],
        contexts=NotRequired[_Pool],
    ),
    "reward": mapping(
        ticket=Count, reward=Number | list[Number], candidate=NotRequired[list[Natural]]
    ),
    "drop": mapping(ticket=Count),
    "observed": mapping(
        groups=list[_Labels], actions=list[Natural], rewards=list[Number], contexts=_Pools
    ),
}
"""What the first line of a log, and what later ones may be, by their `kind`."""
