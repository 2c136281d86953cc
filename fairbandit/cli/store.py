"""Registers the parts, the schema of the root config, and the resolvers of folders with Hydra."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import MISSING, DictConfig, OmegaConf

from fairbandit import registry
from fairbandit.cli.messages import one_message
from fairbandit.errors import FairbanditError
from fairbandit.policy.build import named_policies
from fairbandit.registry.signatures import typed_node
from fairbandit.runs.folder import folder_name
from fairbandit.runs.saved import Callback
from fairbandit.runs.settings import Settings


@dataclass
class Config(Settings):
    """The schema of the root config: the settings, a policy, an environment, and what uses a run.

    `figures` lists the figures that a sweep draws at its end: names, each alone or with the
    policies that it shows. `callbacks` are mappings with `_target_`, the class of a
    `fairbandit.Callback`, and its arguments.
    """

    policy: dict[str, Any] = field(default_factory=lambda: {"refresh": None})
    environment: Any = MISSING
    figures: Any = None
    callbacks: Any = None


def publish() -> None:
    """Stores the schema of the root config, and a typed node for every registered class."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    for kind in (*registry.PART_KINDS, "environment"):
        group = kind if kind == "environment" else f"policy/{kind}"
        for name in registry.names(kind):
            cls: Any = registry.lookup(kind, name)
            store.store(group=group, name=name, node=typed_node(cls, name))


def register_resolvers() -> None:
    """Registers the resolvers `${fairbandit.job:}`, `${fairbandit.sweep:}` and `…notions:}`.

    They name the folder of a run, or of a job by the overrides in which the jobs differ; the folder
    of a sweep; and the policies that stand for a notion of fairness.
    """
    for name, resolver in (("job", _job), ("sweep", _sweep), ("notions", _notions)):
        OmegaConf.register_new_resolver(f"fairbandit.{name}", resolver, replace=True)


def _job(_root_: DictConfig) -> str:
    return folder_name(task_words(_root_), _root_.hydra.job.config.override_dirname.exclude_keys)


def _sweep(_root_: DictConfig) -> str:
    words = OverridesParser.create().parse_overrides(task_words(_root_))
    swept = [word.key_or_group for word in words if word.is_sweep_override()]
    return folder_name([str(w.input_line) for w in words if not w.is_sweep_override()], swept=swept)


def _notions() -> str:
    return ",".join(name for name, policy in named_policies().items() if policy.notion is not None)


def task_words(config: DictConfig) -> list[str]:
    """Returns the overrides of a composed config as given, without overrides of Hydra's node."""
    words: Any = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    return list(words)


def plain_config(value: Any) -> Any:
    """Returns a config, or an entry, as plain data, with its interpolations resolved."""
    if not OmegaConf.is_config(value):
        return value
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True, enum_to_str=True)


def made_callbacks(described: Any) -> list[Callback]:
    """Returns the callbacks that a config describes as plain data, or None."""
    try:
        return hydra.utils.instantiate(described) or []
    except HydraException as error:
        raise FairbanditError(one_message(error)) from error
