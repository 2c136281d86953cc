"""Refuses composed configs that name code to run, and turns the others into plain data.

Hydra instantiates whatever a config names under `_target_`, imports the factories of a logging
config, sets environment variables for a job, and imports packages of a search path. One loader
composes every config, that of a run, of a sweep and of each of its jobs. The loader of this module
refuses a config that uses any of these before Hydra acts on it, whether it came from a word of the
command line, a file, a default or a parameter of a sweep.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from fairbandit.cli import composing
from fairbandit.cli.composing import SharingLoader, dotted
from fairbandit.cli.messages import UNKNOWN_KEY, one_message, unfit_key
from fairbandit.errors import FairbanditError

MOST_JOBS = 100_000
"""The largest number of jobs of one sweep."""

CALLBACKS = {
    "sweeps": "fairbandit.cli.sweeps.Sweeps",
    "parity": "fairbandit.cli.parity.ParityAudit",
}
"""The callbacks of fairbandit's own config files, which are the only ones allowed."""

BASIC = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
"""Hydra's own sweeper, which plays every combination and reads no objective."""

_PLUGINS = ("launcher", "sweeper")
_SAMPLERS = "hydra/sweeper/sampler"
_OF_SWEEPER = {
    "custom_search_space": "it names a function",
    "storage": "a study that is loaded can hold pickles; study.db in the sweep's folder keeps it",
}
_LOGGING = ("job_logging", "hydra_logging")
_WORKER_ENV = {"env_vars": "${fairbandit.worker_env:}"}
_RULE = "a config names registered parts and cannot name code to run"


class CheckedLoader(SharingLoader):
    """Hydra's loader of configs, which refuses configs that name code to run."""

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Composes a config and checks it.

        Raises:
            FairbanditError: a config that names code, or a sweep of no jobs or of too many.
        """
        for word in overrides:
            if "hydra.searchpath" in word.partition("=")[0]:
                raise FairbanditError(
                    f"{word!r} is refused: a search path can name packages to import, and {_RULE}; "
                    "--config-dir adds a folder of config files"
                )
        config = super().load_configuration(
            config_name, overrides, run_mode, from_shell, validate_sweep_overrides
        )
        refuse_code(config)
        if run_mode == RunMode.MULTIRUN and validate_sweep_overrides:
            self._check_sweep(config)
        return config

    def load_sweep_config(
        self, master_config: DictConfig, sweep_overrides: list[str]
    ) -> DictConfig:
        """Composes the config of a job and checks it.

        Raises:
            FairbanditError: a config that names code, or a key that only some of the swept parts
                have.
        """
        try:
            config = super().load_sweep_config(master_config, sweep_overrides)
        except ConfigCompositionException as error:
            told = self._unfit(master_config, sweep_overrides, error.__cause__)
            if told:
                raise FairbanditError(told) from None
            raise
        composing.job_count.composed += 1
        return config

    def _unfit(self, master: DictConfig, words: list[str], error: BaseException | None) -> str:
        """Says which choices of a swept group lack a key; nothing if that is not the error."""
        key = str(error.full_key) if isinstance(error, UNKNOWN_KEY) else ""
        given: Any = OmegaConf.to_container(master.hydra.overrides.task, resolve=False)
        choices = self.swept_choices(master, given)
        above = [group for group in choices if key.startswith(f"{dotted(group)}.")]
        if not above:
            return ""
        group, where = max(above, key=len), key.rpartition(".")[0]
        others = [
            word
            for word in words
            if not word.lstrip("+~").startswith((f"{where}.", f"{group}=", f"{where}="))
        ]
        takes = {}
        for choice in choices[group]:
            config = super().load_sweep_config(master, [*others, f"{group}={choice}"])
            takes[choice] = [
                str(name) for name in OmegaConf.select(config, where) if name != "name"
            ]
        return unfit_key(key, group, takes)

    def _check_sweep(self, config: DictConfig) -> None:
        given: Any = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
        swept: dict[str, int] = {}
        for override in self.swept(config, given):
            if override.is_discrete_sweep():
                count = sum(1 for _ in islice(override.sweep_iterator(), MOST_JOBS + 1))
                if not count:
                    raise FairbanditError(
                        f"{override.input_line}: there is no value to sweep over, so the sweep "
                        "has no job"
                    )
                swept[override.get_key_element()] = count
        if prod(swept.values()) > MOST_JOBS and not tunes(config.hydra):
            raise FairbanditError(
                f"the sweep over {', '.join(swept)} has more than {MOST_JOBS:,} jobs; divide it "
                "into several"
            )
        jobs = config.hydra.sweeper.get("n_trials")
        if config.hydra.runtime.choices["hydra/sweeper"] == "basic":
            jobs = prod(swept.values())
        composing.job_count = composing.JobCount(jobs)


def refuse_code(config: DictConfig) -> None:
    """Refuses a composed config that names code to run.

    * `_target_` stands nowhere but in the nodes of a launcher and a sweeper, where Hydra takes
      installed plugins of its own alone, in the node of a sweeper's sampler, which is one of those
      that the plugin offers, and in fairbandit's own callbacks.
    * Below a launcher and a sweeper nothing else is instantiated, not even what an interpolation
      makes.
    * No environment variable is set. A list of harmless ones could not be complete (PYTHONPATH
      and LD_PRELOAD name code as FAIRBANDIT_PLUGINS does), and users can set them themselves.
    * Logging is one of Hydra's choices, unchanged, since its classes and factories are imported.
    * A launcher runs no commands of a config, and gives workers no further environment.

    Args:
        config: as Hydra composed it, with its own node.

    Raises:
        FairbanditError: with the key at fault.
    """
    plain: Any = OmegaConf.to_container(config, resolve=False, enum_to_str=True)
    own = plain.get("hydra") or {}
    _refuse_callbacks(own.get("callbacks"), needed="policy" in plain)
    _refuse_targets({**plain, "hydra": {**own, "callbacks": None}})
    for kind in _PLUGINS:
        _refuse_launching(f"hydra.{kind}", own.get(kind))
        if own.get(kind):
            _instantiate_only_samplers(kind, config.hydra[kind])
    job = own.get("job") or {}
    for key in ("env_set", "env_copy"):
        if job.get(key):
            raise FairbanditError(
                f"hydra.job.{key} is refused: environment variables can name code, and {_RULE}; "
                "set them in the shell that gives the command"
            )
    for kind in _LOGGING:
        if kind in own and own[kind] not in _logging_choices(kind).values():
            raise FairbanditError(
                f"hydra.{kind} cannot be changed: its classes are imported, and {_RULE}; choose "
                f"hydra/{kind} among {', '.join(_logging_choices(kind))}"
            )


def _instantiate_only_samplers(kind: str, node: DictConfig) -> None:
    """Keeps Hydra from instantiating anything below a launcher or a sweeper but a known sampler.

    Raises:
        FairbanditError: a sweeper that would call a function or load a pickle.
    """
    for key, why in _OF_SWEEPER.items():
        if kind == "sweeper" and OmegaConf.select(node, key) is not None:
            raise FairbanditError(f"hydra.sweeper.{key} is refused: {_RULE}, and {why}")
    if kind == "sweeper" and "sampler" in node:
        OmegaConf.resolve(node)  # so that what is checked is what will be instantiated
        _refuse_targets({"hydra": {kind: OmegaConf.to_container(node)}})
    else:
        with open_dict(node):
            node._recursive_ = False


def tunes(hydra_config: Any) -> bool:
    """Whether a sweep is driven by a sweeper that reads the objective of its jobs.

    Args:
        hydra_config: Hydra's own node of a config.
    """
    return bool(hydra_config.mode == RunMode.MULTIRUN and hydra_config.sweeper._target_ != BASIC)


def _refuse_callbacks(callbacks: Any, *, needed: bool) -> None:
    given = callbacks or {}
    known = {name: {"_target_": target} for name, target in CALLBACKS.items()}
    for name, spec in given.items() if isinstance(given, dict) else [("", given)]:
        if spec != known.get(name):
            raise FairbanditError(
                f"hydra.callbacks{name and '.'}{name} is refused: {_RULE}, and callbacks are code"
            )
    if needed and "sweeps" not in given:
        raise FairbanditError("hydra.callbacks.sweeps cannot be removed: it looks after sweeps")


def _refuse_targets(plain: dict[str, Any]) -> None:
    """Refuses import paths other than those of Hydra's plugins and of the samplers they offer."""
    plugged = [f"hydra.{kind}._target_" for kind in _PLUGINS]
    for path, key, value in _walk(plain):
        offered = path in plugged and Plugins.is_in_toplevel_plugins_module(str(value))
        offered |= path == "hydra.sweeper.sampler._target_" and value in _samplers()
        if key == "_target_" and not offered:
            raise FairbanditError(f"{path}: {_RULE}; register the class in a plugin instead")


def _refuse_launching(where: str, node: Any) -> None:
    """Refuses commands that a launcher would run, and environments other than fairbandit's own."""
    if node is None:
        return
    if not isinstance(node, dict):
        raise FairbanditError(f"{where} must be a mapping, got {node!r}")
    for path, key, item in _walk(node, where):
        if (key == "setup" and item) or (key == "runtime_env" and item not in (None, _WORKER_ENV)):
            raise FairbanditError(
                f"{path} is refused: it gives workers commands or an environment, and {_RULE}"
            )


def _walk(value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The path, key and value of every entry of nested mappings and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        here = f"{path}.{key}".lstrip(".")
        yield here, key, item
        if isinstance(item, (dict, list)):
            yield from _walk(item, here)


def _samplers() -> set[Any]:
    """The import paths of the samplers that installed sweepers offer."""
    store = ConfigStore.instance()
    try:
        files = store.list(_SAMPLERS)
    except OSError:  # no sweeper offers any
        return set()
    nodes = [store.load(f"{_SAMPLERS}/{file}").node for file in files]
    return {OmegaConf.select(node, "_target_") for node in nodes}


@cache
def _logging_choices(kind: str) -> dict[str, Any]:
    """The logging configs that Hydra ships, by name."""
    folder = Path(hydra.__file__).parent / "conf" / "hydra" / kind
    return {
        file.stem: OmegaConf.to_container(OmegaConf.load(file), resolve=False)
        for file in sorted(folder.glob("*.yaml"))
    }


def plain_config(config: DictConfig) -> dict[str, Any]:
    """A job's config as plain data, with every interpolation resolved.

    Raises:
        FairbanditError: an interpolation that cannot be resolved or gives a value of the wrong
            type, or a key that must be given and is not.
    """
    return {str(key): plain_value(config, str(key)) for key in config}


def plain_value(config: DictConfig, key: str) -> Any:
    """One entry of a config as plain data; see `plain_config`."""
    try:
        value = config[key]
        if not OmegaConf.is_config(value):
            return value
        return OmegaConf.to_container(value, resolve=True, throw_on_missing=True, enum_to_str=True)
    except MissingMandatoryValue as error:
        raise FairbanditError(f"{error.full_key} must be given: it has no default") from None
    except OmegaConfBaseException as error:
        raise FairbanditError(one_message(error)) from None
