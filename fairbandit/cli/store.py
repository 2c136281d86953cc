"""The registry as Hydra options, the root's schema, and the names of output folders."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from fairbandit import registry
from fairbandit.run.settings import Settings

_LONGEST = 80


@dataclass
class Config(Settings):
    """The schema of the root config: the settings, a policy and an environment."""

    policy: Any = MISSING
    environment: Any = MISSING


def publish() -> None:
    """Stores a typed node for everything registered, and the schema."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    for kind in registry.KINDS:
        group = f"policy/{kind}" if kind in registry.PART_KINDS else kind
        for name in registry.names(kind):
            store.store(group=group, name=name, node=registry.node(kind, name))


def register_resolvers() -> None:
    """Makes `${fairbandit.policy:}` and `${fairbandit.job:}` known, which name folders."""
    OmegaConf.register_new_resolver("fairbandit.policy", _policy_name, replace=True)
    OmegaConf.register_new_resolver("fairbandit.job", _job_name, replace=True)


def folder_name(text: str) -> str:
    """A short file name without odd characters; where that lost anything, with a hash of it.

    >>> folder_name("oful_seed-1")
    'oful_seed-1'
    >>> folder_name("theta-[1,2]")
    'theta--1-2-a97ab4'
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")
    if safe == text and len(safe) <= _LONGEST:
        return safe
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{safe[: _LONGEST - 7]}-{digest}"


def job_name(overrides: Iterable[str]) -> str:
    """A folder name for a job of a sweep, from its overrides.

    >>> job_name(["policy=oful", "policy.estimator.exploration=0.1", "policy/rank=identity"])
    'policy-oful_exploration-0.1_rank-identity'
    """
    pairs = (override.lstrip("+~").partition("=") for override in overrides)
    words = [f"{re.split('[./]', key)[-1]}-{value}".rstrip("-") for key, _, value in pairs]
    return folder_name("_".join(words) or "default")


def _policy_name(*, _root_: DictConfig) -> str:
    return folder_name(str(OmegaConf.select(_root_, "policy.name", default="custom")))


def _job_name(*, _root_: DictConfig) -> str:
    return job_name(OmegaConf.select(_root_, "hydra.overrides.task"))
