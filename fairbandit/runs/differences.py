"""Paired differences of settings from a baseline, replica by replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.runs.naming import chosen
from fairbandit.runs.pooling import PooledRuns, paired_difference
from fairbandit.runs.scenes import Scene
from fairbandit.runs.summary import finite


@dataclass(frozen=True, kw_only=True)
class Difference(PooledRuns):
    """A setting whose results are its paired differences from a baseline.

    Attributes:
        base: the baseline, which is subtracted.
    """

    base: PooledRuns

    @property
    def replicas(self) -> int:
        """The number of replicas that both settings have."""
        shared = {run.summary["seed"]: run.summary["replicas"] for run in self.base.runs}
        own = [run.summary for run in self.runs]
        return sum(min(one["replicas"], shared.get(one["seed"], 0)) for one in own)

    @property
    def columns(self) -> list[str]:
        """The columns that both settings have."""
        own = PooledRuns(self.runs).columns
        return [column for column in self.base.columns if column in own]

    @cached_property
    def spreads(self) -> dict[str, dict[str, Any]]:
        """The differences of every metric and of every group's selection rate, by column."""
        return self._less(self.base.spreads)

    @cached_property
    def of_groups(self) -> dict[str, dict[str, Any]]:
        """The differences of each measure of each group's picks, such as `reward:GROUP`."""
        return self._less(self.base.of_groups)

    def _less(self, spreads: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {
            name: {**spreads[name], **finite(paired_difference(self, self.base, name))}
            for name in self.columns
            if name in spreads and not name.startswith("selected_")  # the rates say the same
        }

    def results(
        self, *, groups: bool = False, columns: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Returns the label of the baseline, and the differences as `PooledRuns.results` does."""
        return {"baseline": self.base.label, **super().results(groups=groups, columns=columns)}


def differences(scenes: Sequence[Scene], baseline: str | Mapping[str, Any]) -> list[Difference]:
    """Returns the differences of settings from the baseline of their environment and rounds.

    Args:
        scenes: the settings by environment.
        baseline: as for `Runs.compare`.

    Raises:
        FairbanditError: the baseline does not match exactly one setting, or shares no seed and
            replica with another setting.
    """
    found = []
    for scene in scenes:
        for rounds in dict.fromkeys(run.rounds for run in scene.runs):
            alike = [run for run in scene.runs if run.rounds == rounds]
            base = _baseline(baseline, scene.name, alike)
            for run in (run for run in alike if run is not base):
                found.append(Difference(run.runs, run.each, run.copy, run.varied, base=base))
                if not found[-1].replicas:
                    raise FairbanditError(f"{run.label!r} and {base.label!r} share no seed")
    if not found:
        raise FairbanditError(f"there is no run to compare with the baseline {baseline!r}")
    return found


def _baseline(
    asked: str | Mapping[str, Any], environment: str, runs: Sequence[PooledRuns]
) -> PooledRuns:
    guess = ""
    if isinstance(asked, str):
        matches = [run for run in runs if run.label == asked]
        matches = matches or [run for run in runs if run.policy == asked]
        names = [name for run in runs for name in (run.label, run.policy)]
        guess = "" if matches else did_you_mean(asked, names)
    else:
        matches = chosen(runs, {key: [value] for key, value in asked.items()})
    if len(matches) != 1:
        raise FairbanditError(
            f"the baseline {asked!r} names {'several settings' if matches else 'no setting'} of "
            f"{environment} with {runs[0].rounds:,} rounds{guess}; choose one of "
            f"{', '.join(repr(run.label) for run in matches or runs)}"
        )
    return matches[0]
