"""The registry as Hydra options, the root's schema, and what names output folders."""

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


def publish() -> None:
    """Stores a typed node for everything registered, and the schema."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    for kind in (*registry.PART_KINDS, "environment"):
        group = f"policy/{kind}" if kind in registry.PART_KINDS else kind
        for name in registry.names(kind):
            store.store(group=group, name=name, node=registry.node(kind, name))


def register_resolvers() -> None:
    """Makes the resolvers of conf/ known.

    `${fairbandit.job:}` names the folder of a run or of a sweep, `${fairbandit.job:KEY}` without
    a key that says nothing there; `${fairbandit.worker_env:}` is
    what a worker on another machine must have of this process's environment.
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
