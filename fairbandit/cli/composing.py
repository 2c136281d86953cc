"""Composes the configs of a sweep quickly: its jobs choose the same files and differ in values.

Hydra takes a tenth of a second to compose a config: it reads the files, orders them by their
defaults lists and merges them. Single values, as in `seed=3`, are set last of all. The loader of
this module composes each choice of files once, and sets the values of each job on a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any
from uuid import uuid4

from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra._internal.config_repository import ConfigRepository
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, HydraException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException


@dataclass
class JobCount:
    """How many jobs a sweep has.

    Attributes:
        jobs: how many; None if the sweeper decides that while they run.
        composed: of how many the config has been composed and checked.
    """

    jobs: int | None = None
    composed: int = 0


job_count = JobCount()
"""That of the sweep that this process drives."""

_KEPT = 128  # choices of files; each takes half a megabyte
_WORDS = 4096
_loaders: dict[str, SharingLoader] = {}  # the loader of the sweep that this worker takes part in


class SharedFiles(ConfigRepository):
    """Hydra's collection of config files, which reads each file once."""

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        """Looks for files in other places from now on."""
        super().initialize_sources(config_search_path)
        self._read: dict[str, ConfigResult | None] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Returns a copy of the contents of a file, since composition changes what it is given."""
        if config_path not in self._read:
            self._read[config_path] = super().load_config(config_path)
        return copy.deepcopy(self._read[config_path])

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedFiles:
        """Makes a collection that shares the files read, until it looks in other places."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_read": {}}


class SharingLoader(ConfigLoaderImpl):
    """Hydra's loader of configs, which composes configs that choose the same files once.

    A worker that is sent the same loader with every job keeps the first.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = SharedFiles(config_search_path)
        self._token = uuid4().hex
        self._remember()

    def _remember(self) -> None:
        self._chosen: Callable[..., DictConfig] = lru_cache(_KEPT)(self._compose)
        self._parsed: Callable[[str], Override] = lru_cache(_WORDS)(_parse)
        self._is_group: Callable[..., bool] = lru_cache(_WORDS)(self._has_group)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"config_search_path": self.config_search_path, "repository": self.repository}
        return _received, (type(self), self._token, state)

    def _load_configuration_impl(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Composes a config as Hydra does.

        The config of a sweep as a whole has the default part of a group that is swept. It leaves
        out values that this part does not take, as `policy.rank.KEY` where `policy/rank` is
        swept; the configs of the jobs must take them.
        """
        parsed = list(map(self._parsed, overrides))
        if validate_sweep_overrides:
            self.validate_sweep_overrides_legal(parsed, run_mode, from_shell)
        sets = [self._sets_value(config_name, override) for override in parsed]
        chosen = tuple(word for word, is_set in zip(overrides, sets, strict=True) if not is_set)
        config = copy.deepcopy(self._chosen(config_name, chosen, run_mode))
        swept = self.swept_choices(config, overrides) if run_mode == RunMode.MULTIRUN else ()
        below = tuple(f"{dotted(group)}." for group in swept)
        for override in compress(parsed, sets):
            try:
                self._apply_overrides_to_config([override], config)
            except ConfigCompositionException:
                if not override.key_or_group.startswith(below):
                    raise
        task = [override for override in parsed if not override.is_hydra_override()]
        hydras = [override for override in parsed if override.is_hydra_override()]
        config.hydra.overrides.task = [override.input_line for override in task]
        config.hydra.overrides.hydra = [override.input_line for override in hydras]
        config.hydra.job.override_dirname = get_overrides_dirname(
            overrides=task, **config.hydra.job.config.override_dirname
        )
        return config

    def _compose(
        self, config_name: str | None, words: tuple[str, ...], run_mode: RunMode
    ) -> DictConfig:
        """Composes the files of a config.

        Hydra composes a config as that of a sweep to see whether it is one. That of a single run
        differs from it only where a group's choice is missing, which only a sweep may leave open.
        """
        if run_mode != RunMode.MULTIRUN:
            with suppress(HydraException, OmegaConfBaseException):  # raised again below
                config = self._chosen(config_name, words, RunMode.MULTIRUN)
                if MISSING not in config.hydra.runtime.choices.values():
                    return config
        return super()._load_configuration_impl(
            config_name, list(words), run_mode, validate_sweep_overrides=False
        )

    def _sets_value(self, config_name: str | None, override: Override) -> bool:
        """Whether an override sets a value of a run: it chooses no file, and is not for Hydra.

        `hydra.mode` counts as one, since Hydra adds it to every command that it composed before.
        """
        key = override.key_or_group
        if override.is_sweep_override() or key == "hydra":
            return False
        if override.is_hydra_override():
            return key == "hydra.mode"
        return isinstance(override.value(), dict) or not self._is_group(config_name, key)

    def _has_group(self, config_name: str | None, key: str) -> bool:
        _, repository = self._parse_overrides_and_create_caching_repo(config_name, [])
        return bool(repository.group_exists(key))

    def swept_choices(self, config: DictConfig, words: Sequence[str]) -> dict[str, list[str]]:
        """Returns the values of each group of config files that a sweep chooses from.

        Args:
            config: the sweep's, with the parameters of its sweeper.
            words: the overrides of the command line.
        """
        choices: dict[str, list[str]] = {}
        for override in self.swept(config, words):
            key = override.key_or_group
            if override.is_discrete_sweep() and self._is_group(config.hydra.job.config_name, key):
                choices[key] = [str(value) for value in override.sweep_string_iterator()]
        return choices

    def swept(self, config: DictConfig, words: Sequence[str]) -> Iterator[Override]:
        """Yields the overrides that sweep, of a sweeper's parameters and of the command line."""
        params = OmegaConf.select(config, "hydra.sweeper.params") or {}
        given = [*(f"{key}={value}" for key, value in params.items()), *words]
        parsed = OverridesParser.create(config_loader=self).parse_overrides(given)
        return (override for override in parsed if override.is_sweep_override())


def dotted(group: str) -> str:
    """Returns the key below which a group's files lie in a config."""
    return group.replace("/", ".")


def _parse(word: str) -> Override:
    return OverridesParser.create().parse_overrides([word])[0]


def _received(cls: type[SharingLoader], token: str, state: Mapping[str, Any]) -> SharingLoader:
    """Returns the loader that this process was sent first, of those with one token."""
    if token not in _loaders:
        _loaders.clear()
        loader = _loaders[token] = object.__new__(cls)
        vars(loader).update(state, _token=token)
        loader._remember()
    return _loaders[token]
