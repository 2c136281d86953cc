"""Policies and environments from plain data, without Hydra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fairbandit.environments
import fairbandit.parts  # noqa: F401 - both register their classes
from fairbandit import registry
from fairbandit.environments.base import Environment
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.policy import Policy
from fairbandit.presets import preset, presets


def build(config: Mapping[str, Any]) -> Policy | Environment:
    """Makes a policy or an environment from plain data.

    Args:
        config: for a policy, `split`, `estimator`, `rank` and, if not `argmax`, `selector`: each
            a part's name, or a mapping with `name` and hyperparameters; and, if wished, `name`.
            A `name` of `conf/policy/` supplies the parts left out. For an environment, `name`
            and its parameters.

    Returns:
        The policy or the environment.

    Raises:
        FairbanditError: an unknown kind, name or parameter, or a value of the wrong type.

    >>> policy = build({"split": "halves", "rank": "empirical_cdf",
    ...                 "estimator": {"name": "ridge", "regularization": 1.0}})
    >>> policy.describe()["estimator"]
    {'name': 'ridge', 'regularization': 1.0, 'noise': 1e-08}
    >>> build({"name": "oful"}).estimator.part_name
    'optimistic_ridge'
    >>> build({"name": "simulation", "noise": 0.5}).places
    4
    """
    if not _describes_policy(config):
        environment: Environment = registry.create("environment", config)
        return environment
    if _named(config):
        config = {**preset(config["name"]), **config}
    unknown = sorted(set(config) - {*registry.PART_KINDS, "name"})
    missing = sorted({"split", "estimator", "rank"} - set(config))
    if unknown or missing:
        raise FairbanditError(
            f"a policy is made of {', '.join(registry.PART_KINDS)} and may have a name; "
            f"unknown: {unknown or 'none'}, missing: {missing or 'none'}"
        )
    described = {"selector": "argmax", **config}
    parts = {kind: registry.create(kind, described[kind]) for kind in registry.PART_KINDS}
    return Policy(**parts, name=config.get("name") or "custom")


def build_policy(config: str | Mapping[str, Any]) -> Policy:
    """Makes a policy from the name of one, or from plain data.

    Raises:
        FairbanditError: no such policy, or an environment, which is not made.
    """
    if isinstance(config, str):
        if config not in presets():
            raise FairbanditError(
                f"unknown policy {shown(config)}; the named ones are {', '.join(presets())}"
            )
        config = {"name": config}
    if not isinstance(config, Mapping):
        raise FairbanditError(f"expected a policy's name or a mapping, got {shown(config)}")
    if not _describes_policy(config):
        raise FairbanditError(f"expected a policy, got an environment: {shown(dict(config))}")
    policy = build(config)
    assert isinstance(policy, Policy)
    return policy


def _describes_policy(config: Mapping[str, Any]) -> bool:
    """Whether `build` makes a policy of plain data, rather than an environment."""
    return _named(config) or not set(config).isdisjoint(registry.PART_KINDS)


def _named(config: Mapping[str, Any]) -> bool:
    """Whether the name is one of `conf/policy/`."""
    name = config.get("name")
    if not (name is None or isinstance(name, str)):
        raise FairbanditError(
            f"the name of a policy or of an environment must be a text, got {name!r}"
        )
    return name in presets()
