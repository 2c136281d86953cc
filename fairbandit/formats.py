"""Types and ranges of what files hold, which msgspec checks where a file is read.

Anybody can compute a right checksum: it shows damage, and says nothing of what a file holds.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=0, le=1e100)]
Share = Annotated[float, Meta(ge=0, le=1 + 1e-9)]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Plain = dict[str, Any]
"""A mapping that is checked where something is built from it, such as a policy from its config."""
