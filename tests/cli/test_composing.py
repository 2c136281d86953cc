"""Configs are composed from shared files as Hydra composes each of them from its own."""

import copy
from typing import Any

import pytest
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.utils import setup_globals
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import OmegaConf

from fairbandit.building import conf_folder
from fairbandit.cli.composing import SharingLoader
from fairbandit.cli.store import publish, register_resolvers

RIGHT = [
    ["seed=${rounds}", "rounds=10", "policy/rank=identity", "policy=greedy"],
    ["policy.rank.size=7", "policy/rank=recent_cdf", "policy.rank={}", "+policy.extra=1"],
    ["~policy/selector", "+policy.selector={name:argmax}", "++seed=4", "+policy.a=1", "~policy.a"],
    [
        "+experiment=simulation",
        "hydra.runtime.cwd=there",
        "hydra={verbose:true}",
        "policy={name:a}",
    ],
    ["hydra.verbose=true", "seed=5", "hydra.mode=RUN", "hydra/launcher=joblib"],
    ["hydra.job.config.override_dirname.exclude_keys=[seed]", "seed=5", "hydra/launcher=joblib"],
]
WRONG = [
    "seed=x",
    "policy=nothing",
    "policy.rank.nothing=1",
    "seed=1,2",
    "seed=[",
    "+seed=1",
    "policy/rank=???",
    "hydra.mode=nothing",
]


@pytest.fixture(scope="module")
def loaders():
    """Hydra's loader, and the one that shares files."""
    publish()
    register_resolvers()
    setup_globals()
    version.setbase("1.3")
    path = create_config_search_path(str(conf_folder()))
    return ConfigLoaderImpl(path), SharingLoader(path)


def composed(loader: ConfigLoaderImpl, words: list[str], mode: RunMode = RunMode.RUN) -> Any:
    """The composed config as text, or the error."""
    try:
        config = loader.load_configuration("config", list(words), mode)
    except HydraException as error:
        return type(error), str(error), str(error.__cause__)
    return OmegaConf.to_yaml(config), config._metadata.flags, config.hydra._metadata.flags


@pytest.mark.parametrize("words", [*RIGHT, *([word] for word in WRONG)], ids=" ".join)
def test_a_config_equals_hydras(loaders, words):
    hydra, sharing = loaders
    expected = composed(hydra, words)
    assert isinstance(expected[0], str) == (words in RIGHT)
    assert composed(sharing, words) == expected
    assert composed(sharing, words) == expected  # nothing has changed what is shared


def test_a_command_is_composed_once(loaders, monkeypatch):
    """Hydra composes a command as a sweep, and again with the mode that it found."""
    calls, plain = list[Any](), vars(ConfigLoaderImpl)["_load_configuration_impl"]

    def counted(*given, **named):
        calls.append(given[2])
        return plain(*given, **named)

    monkeypatch.setattr(ConfigLoaderImpl, "_load_configuration_impl", counted)
    _, sharing = loaders
    sharing.load_configuration("config", ["policy=gmf", "seed=3"], RunMode.MULTIRUN)
    config = sharing.load_configuration(
        "config", ["policy=gmf", "seed=4", "hydra.mode=RUN"], RunMode.RUN
    )
    assert calls == [["policy=gmf"]]
    assert config.hydra.mode is RunMode.RUN


def test_a_sweep_leaves_out_what_its_default_parts_do_not_take(loaders):
    hydra, sharing = loaders
    swept = ["policy/rank=recent_cdf,identity", "seed=1,2", "rounds=5"]
    known, *_ = composed(hydra, swept, RunMode.MULTIRUN)
    found, *_ = composed(sharing, [*swept, "policy.rank.size=3"], RunMode.MULTIRUN)
    expected, found = map(OmegaConf.create, (known, found))
    assert found.hydra.overrides.task == [*swept, "policy.rank.size=3"]
    assert "policy.rank.size=3" in found.hydra.job.override_dirname.split(",")
    for config in (expected, found):
        del config.hydra.overrides, config.hydra.job.override_dirname
    assert found == expected


def test_a_worker_keeps_the_first_of_the_loaders_that_are_sent_to_it(loaders):
    _, sharing = loaders
    first, again = copy.copy(sharing), copy.copy(sharing)
    assert first is again
    assert first is not sharing
    assert copy.copy(SharingLoader(sharing.config_search_path)) is not first
    assert composed(first, ["seed=3"]) == composed(sharing, ["seed=3"])
