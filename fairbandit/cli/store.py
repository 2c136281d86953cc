"""Registers the parts, the schema of the root config, and the resolvers of folders with Hydra."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import MISSING, DictConfig, OmegaConf

from fairbandit import registry
from fairbandit.policy.build import named_policies
from fairbandit.registry.signatures import typed_node
from fairbandit.runs.settings import Settings

LONGEST = 80
"""The largest number of characters in the name of a folder."""

_NO_MATTER = ("resume", "threads", "figures")


@dataclass
class Config(Settings):
    """The schema of the root config: the settings, a policy and an environment.

    Attributes:
        policy: a preset or parts, optionally with `refresh`.
        environment: a registered environment.
        figures: the figures that a sweep draws at its end: a list of names, each alone or with
            the policies that it shows.
    """

    policy: dict[str, Any] = field(default_factory=lambda: {"refresh": None})
    environment: Any = MISSING
    figures: Any = None


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

    The first names the folder of a run, or the folder of a job by the overrides in which the jobs
    differ. The second names the folder of a sweep. The third lists the named policies that stand
    for a notion of fairness.
    """
    for name, resolver in (("job", _job), ("sweep", _sweep), ("notions", _notions)):
        OmegaConf.register_new_resolver(f"fairbandit.{name}", resolver, replace=True)


def _job(_root_: DictConfig) -> str:
    return folder_name(task_words(_root_), _root_.hydra.job.config.override_dirname.exclude_keys)


def _sweep(_root_: DictConfig) -> str:
    words = OverridesParser.create().parse_overrides(task_words(_root_))
    swept = [word.key_or_group for word in words if word.is_sweep_override()]
    fixed = [str(word.input_line) for word in words if not word.is_sweep_override()]
    return folder_name(fixed, swept=swept)


def _notions() -> str:
    return ",".join(name for name, policy in named_policies().items() if policy.notion is not None)


def folder_name(
    overrides: Iterable[str], but: Collection[str] = (), swept: Iterable[str] = ()
) -> str:
    """Makes a folder name from the overrides of a run or of a sweep, which are KEY=VALUE words.

    Different overrides make different names: a name that was shortened, or whose special
    characters were replaced, ends with 64 bits of a hash. `resume`, `threads`, `figures` and the
    keys in `but` are left out.

    A `swept` key is written without its values, so that the same command with further values
    continues in the same folder. The folders of the jobs are named by the values.

    >>> folder_name(["policy=oful", "policy.estimator.exploration=0.1", "policy/rank=identity"])
    'policy-oful_estimator.exploration-0.1_rank-identity'
    >>> folder_name(["environment.theta=[1,2]"])
    'environment.theta-1+2-4b912523e1fafd60'
    >>> folder_name(["rounds=100", "resume=true"], swept=["policy", "seed"])
    'policy_seed_rounds-100'
    """
    words = [_short(key) for key in swept]
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key not in _NO_MATTER and key not in but:
            words.append(f"{_short(key)}-{value}")
    text = "_".join(words) or "default"
    bare = re.sub(r"[][(){}]", "", text)  # as a hyphen, a bracket would look like a minus sign
    safe = re.sub(r"[^A-Za-z0-9._,-]+", "-", bare).strip("-.").replace(",", "+")
    if safe.replace("+", ",") == text and len(safe) <= LONGEST:
        return safe
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{safe[: LONGEST - 17]}-{digest}"


def _short(key: str) -> str:
    """Returns a key without `policy/`, or `policy.` where a part's parameter follows."""
    return re.sub(r"^(policy/|policy\.(?=\w+\.))", "", key)


def task_words(config: DictConfig) -> list[str]:
    """Returns the overrides of a composed config as given, without overrides of Hydra's node."""
    words: Any = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    return list(words)


def plain_config(value: Any) -> Any:
    """Returns a config, or one of its entries, as plain data, with every interpolation resolved.

    Raises:
        OmegaConfBaseException: an interpolation cannot be resolved or gives a value of the wrong
            type, or a mandatory key is missing.
    """
    if not OmegaConf.is_config(value):
        return value
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True, enum_to_str=True)
