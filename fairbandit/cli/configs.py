"""Configs as plain data."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairbandit.cli.messages import one_message
from fairbandit.errors import FairbanditError


def plain_config(config: DictConfig) -> dict[str, Any]:
    """Returns a job's config as plain data, with every interpolation resolved.

    Raises:
        FairbanditError: an interpolation that cannot be resolved or gives a value of the wrong
            type, or a key that must be given and is not.
    """
    return {str(key): plain_value(config, str(key)) for key in config}


def plain_value(config: DictConfig, key: str) -> Any:
    """Returns one entry of a config as plain data; see `plain_config`."""
    try:
        value = config[key]
        if not OmegaConf.is_config(value):
            return value
        return OmegaConf.to_container(value, resolve=True, throw_on_missing=True, enum_to_str=True)
    except OmegaConfBaseException as error:
        raise FairbanditError(one_message(error)) from None
