"""Any problem, whose candidates come one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fairbandit.environments.base import Environment, Pools
from fairbandit.errors import FairbanditError
from fairbandit.registry import completed, create, lookup, register
from fairbandit.streams import Purpose, Streams

BASE = "simulation"


@register("environment", "arrivals")
class Arrivals(Environment):
    """Any environment, with the candidates of one or several pools in their order of arrival.

    A round joins the next `join` pools of the base. Its places are in a random order, so that the
    groups come in any order, which the selector `rolling` needs for parity. With `trend`, better
    candidates come earlier: places are sorted by (1 − |trend|)·U − trend·(true rank), with a
    uniform U for each candidate. With `least`, the number of candidates who come is uniform on
    least … K; the last places are then empty. True rewards that drift do so at the first pool of a
    round.

    Args:
        base: the environment, a name or a mapping with `name` and parameters; null for
            `simulation`.
        join: the number of pools that come together.
        trend: from −1, where the best candidates come last, to 1, where they come first.
        least: the least number of candidates who come; null for all.

    Raises:
        FairbanditError: a value is out of range, or the base cannot be made or lacks a truth.
    """

    def __init__(
        self, *, base: Any = None, join: int = 1, trend: float = 0.0, least: int | None = None
    ) -> None:
        self._inner = inner = create("environment", base or BASE)
        self.base, self.join, self.trend, self.least = base, join, trend, least
        self.features, self.places = inner.features, inner.places * max(join, 1)
        in_range = join >= 1 and -1 <= trend <= 1 and 1 <= (least or 1) <= self.places
        if not in_range or inner.truth is None:
            raise FairbanditError(
                "environment: expected a base with a truth, join of at least 1, trend from -1 to "
                f"1, and least from 1 to {self.places}; got {inner}, {join}, {trend} and {least}"
            )
        self.group_names, self.truth = inner.group_names, inner.truth
        vars(self)["exploration"] = inner.exploration

    @classmethod
    def fingerprint(cls, parameters: Mapping[str, Any]) -> str | None:
        """Returns the fingerprint of the base."""
        given = completed("environment", parameters.get("base") or BASE)
        base: type[Environment] = lookup("environment", given.pop("name"))
        return base.fingerprint(given)

    def bind(self, streams: Streams) -> None:
        """Draws from the given streams, on their device."""
        super().bind(streams)
        self._inner.bind(streams)
        self.truth = self._inner.truth

    def _pools(self, first: int, count: int) -> Pools:
        n, k = self.join, self.places
        parts = vars(self._inner.pools((first - 1) * n + 1, count * n))
        joined = {name: part.unflatten(1, (count, n)).flatten(2, 3) for name, part in parts.items()}
        drawn = self.streams[Purpose.ARRIVALS].uniform(first, count, k + 1)
        late = (1 - abs(self.trend)) * drawn[..., :k] - self.trend * joined["ranks"]
        order = late.masked_fill(joined["groups"] < 0, torch.inf).argsort(2)
        pools = {
            name: part.take_along_dim(order if part.ndim == 3 else order[..., None], 2)
            for name, part in joined.items()
        }
        least = self.least or k
        come = least + (drawn[..., k:] * (k - least + 1)).floor()
        places = torch.arange(k, device=come.device)
        pools["groups"] = pools["groups"].masked_fill(places >= come, -1)
        return Pools(**pools)
