"""Gives Hydra the registered parts, the schema of the root config, and the resolvers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairbandit import registry
from fairbandit.cli.names import job_name
from fairbandit.errors import FairbanditError
from fairbandit.plugins import VARIABLE as PLUGINS
from fairbandit.run.checkpoint import VARIABLE as CHECKPOINTS
from fairbandit.run.settings import Settings

_FOR_WORKERS = ("PYTHONPATH", PLUGINS, CHECKPOINTS)


@dataclass
class Config(Settings):
    """The schema of the root config: the settings, a policy and an environment.

    Attributes:
        policy: a preset, or parts.
        environment: a registered one.
        figures: what a sweep draws at its end: a list of names, each alone or with the
            policies that it shows.
    """

    policy: Any = MISSING
    environment: Any = MISSING
    figures: Any = None


_stored: dict[tuple[str, str], type[Any]] = {}


def publish() -> None:
    """Stores the schema, and a typed node for every registered class that is not stored yet."""
    store = ConfigStore.instance()
    nodes = {("", "schema"): Config} | {
        (f"policy/{kind}" if kind in registry.PART_KINDS else kind, name): registry.node(kind, name)
        for kind in (*registry.PART_KINDS, "environment")
        for name in registry.names(kind)
    }
    for (group, name), node in nodes.items():
        if _stored.get((group, name)) is not node:
            store.store(group=group or None, name=name, node=node)
    _stored.update(nodes)


def register_resolvers() -> None:
    """Registers the resolvers that the files of conf/ use.

    `${fairbandit.job:}` is the name of a run's or a sweep's folder; `${fairbandit.job:KEY}` leaves
    a key out of it. `${fairbandit.worker_env:}` gives the environment variables that a worker on
    another machine needs.
    """
    OmegaConf.register_new_resolver("fairbandit.job", _job_name, replace=True)
    OmegaConf.register_new_resolver("fairbandit.worker_env", _worker_env, replace=True)


def _job_name(*unsaid: str, _root_: DictConfig) -> str:
    return job_name(_resolved(OmegaConf.select(_root_, "hydra.overrides.task")), unsaid)


def _resolved(words: ListConfig) -> Iterator[str]:
    """Overrides, with the interpolations in them resolved."""
    raw: Any = OmegaConf.to_container(words, resolve=False)
    for index, word in enumerate(raw):
        try:
            yield words[index]
        except OmegaConfBaseException as error:
            raise FairbanditError(f"{word}: {str(error).splitlines()[0]}") from None


def _worker_env() -> dict[str, str]:
    return {name: os.environ[name] for name in _FOR_WORKERS if name in os.environ}
