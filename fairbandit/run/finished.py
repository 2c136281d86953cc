"""Finished runs: recognised and left as they are."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairbandit.build import build
from fairbandit.engine import Engine
from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.policy import Policy
from fairbandit.run import summary as summaries
from fairbandit.run.folder import CHECKPOINT, SUMMARY
from fairbandit.run.identity import differences, planned, resolved, without_settings
from fairbandit.run.settings import Settings


def finished(config: Mapping[str, Any], checked: Settings, folder: Path) -> dict[str, Any] | None:
    """The summary of the run in a folder, if that is this run and it is finished.

    Args:
        config: the run's config.
        checked: its settings.
        folder: its folder.

    Raises:
        FairbanditError: the folder holds the finished run of another config; with `resume` false,
            any run.
    """
    if not checked.resume and any((folder / name).exists() for name in (SUMMARY, CHECKPOINT)):
        raise FairbanditError(
            f"{folder} already holds a run, and resume is false; choose another output folder"
        )
    if not (folder / SUMMARY).exists():
        return None
    summary = summaries.read(folder)
    different = _differences(summary, config, checked)
    if different:
        raise FairbanditError(
            f"{folder} already holds a finished run ({SUMMARY}) that differs from this one: "
            f"{'; '.join(different)}. Choose another output folder; resume=false makes a new one"
        )
    with suppress(OSError):  # killed after its last file and before its last step
        (folder / CHECKPOINT).unlink(missing_ok=True)
    return summary


def _differences(
    summary: Mapping[str, Any], config: Mapping[str, Any], checked: Settings
) -> list[str]:
    """How the finished run's config differs, asking the environment itself only if it seems to."""
    then = without_settings(summary["config"])
    now = without_settings(summaries.finite(planned(config, checked)))
    if not differences(then, now):
        return []
    policy, environment = build(config["policy"]), build(config["environment"])
    assert isinstance(policy, Policy)
    assert isinstance(environment, Environment)
    rounds = environment.rounds if checked.rounds is None else checked.rounds
    Engine(policy, environment, rounds=rounds, seed=checked.seed, replicas=[0])
    made = resolved(policy, environment, replace(checked, rounds=rounds))
    return differences(then, without_settings(summaries.finite(made)))
