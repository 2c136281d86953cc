"""The learners that are compared, and over which of their settings each is tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairbandit import Policy, build
from tests.benchmarks.players import Ours, Player
from tests.studies.comparison.players import Bayesian, Coba, OursWithProducts, VowpalCosts

Settings = Mapping[str, float]


class Shape(NamedTuple):
    """What a player is made for: its seed, the pools, and the usual range of their rewards."""

    features: int
    places: int
    groups: int
    low: float
    high: float
    seed: int


class Range(NamedTuple):
    """The default of a setting, and the bounds between which its logarithm is searched."""

    default: float
    low: float
    high: float

    def at(self, share: float) -> float:
        """The value at a share of the way from low to high; where low is 0, it is 0 or 1."""
        if not self.low:
            return float(share >= 0.5)
        return float(f"{self.low * (self.high / self.low) ** share:.3g}")


SWITCH = Range(0.0, 0.0, 1.0)
PRODUCTS = "products"
"""A switch: products of two features are features too."""

PENALTY = Range(0.1, 1e-3, 1e2)
RATE = Range(0.5, 0.02, 5.0)
COSTS = Range(1.0, 0.1, 10.0)
SCALE = Range(1.0, 0.1, 10.0)
BONUS = Range(1.0, 1e-3, 3.0)

AUTO = {"regularization": "auto"}

TRAINING = {
    "learning_rate": Range(0.01, 1e-3, 0.05),
    "weight_decay": Range(1e-4, 1e-5, 1.0),
}
"""The settings of a network's training, which begins anew once rounds have grown by `REFRESH`."""

REFRESH = 1.5


@dataclass(frozen=True)
class Learner:
    """A learner and its settings; `products` says that its package can make them.

    A policy of ours has a config for some settings, so that an `Engine` can play it too. A learner
    with a `network` plays only in worlds where the features are not enough for a linear model.
    """

    package: str
    make: Callable[[Shape, Settings], Player]
    space: Mapping[str, Range] = field(default_factory=dict)
    products: bool = False
    config: Callable[[Settings], dict[str, Any]] | None = None
    by: str = "standard"  # the regret that the settings are chosen by
    network: bool = False

    def policy(self, settings: Settings) -> Policy:
        assert self.config is not None
        made = build(self.config(settings))
        assert isinstance(made, Policy)
        return made


def _ours(
    name: str, fixed: Mapping[str, Any] | None = None, by: str = "standard", **space: Range
) -> Learner:
    def config(settings: Settings) -> dict[str, Any]:
        return {"name": name} | ({"estimator": {**fixed, **settings}} if fixed else {})

    return _policy(config, space, products=bool(fixed), by=by)


def _network(name: str, head: Mapping[str, Any], by: str = "standard", **space: Range) -> Learner:
    """A policy with `neural_linear`, whose settings are those of its head and of its training."""

    def config(settings: Settings) -> dict[str, Any]:
        of_head, training = ({key: settings[key] for key in part} for part in (space, TRAINING))
        estimator = {"name": "neural_linear", "head": {**head, **of_head}, **training}
        return {"name": name, "refresh": REFRESH, "estimator": estimator}

    return _policy(config, {**space, **TRAINING}, products=True, by=by, network=True)


def _policy(
    config: Callable[[Settings], dict[str, Any]], space: Mapping[str, Range], **more: Any
) -> Learner:
    """A policy of ours, whose config depends on its settings."""

    def of_features(settings: Settings) -> dict[str, Any]:
        return config({key: value for key, value in settings.items() if key != PRODUCTS})

    def make(shape: Shape, settings: Settings) -> Player:
        made = of_features(settings)
        if settings.get(PRODUCTS):
            return OursWithProducts(made, shape.features, shape.groups, shape.seed)
        return Ours(made, shape.features, shape.groups, shape.seed)

    return Learner("fairbandit", make, space, config=of_features, **more)


def _vowpal(exploration: str, bounded: bool = False, **space: Range) -> Learner:
    """Usual rewards are costs from 0 to `costs`, or, if `centred`, around 0."""

    def make(shape: Shape, settings: Settings) -> Player:
        words = [f"{exploration} --learning_rate {settings['learning_rate']:g}"]
        words += [f"--{name} {settings[name]:g}" for name in space]
        words += ["-q ff"] if settings.get(PRODUCTS) else []
        least = -settings["costs"] / 2 if settings["centred"] else 0.0
        if bounded:
            words += [f"--cb_min_cost {least:g} --cb_max_cost {least + settings['costs']:g}"]
        scale = settings["costs"] / (shape.high - shape.low)
        best = shape.high + least / scale
        return VowpalCosts(shape.features, " ".join(words), shape.seed, best, scale)

    own = {"learning_rate": RATE, "costs": COSTS, "centred": SWITCH}
    return Learner("vowpalwabbit", make, {**space, **own}, True)


def _coba(name: str, setting: str, explored: Range) -> Learner:
    def make(shape: Shape, settings: Settings) -> Player:
        terms = ["a", "aa"] if settings.get(PRODUCTS) else ["a"]
        return Coba(name, settings[setting], terms, settings["scale"], shape.seed)

    return Learner("coba", make, {setting: explored, "scale": SCALE}, True)


def _bayesian(shape: Shape, settings: Settings) -> Player:
    products = bool(settings.get(PRODUCTS))
    numbers = settings["alpha"], settings["beta"]
    return Bayesian(shape.features, shape.places, *numbers, products, shape.seed)


LEARNERS: dict[str, Learner] = {
    "fairbandit greedy": _ours("greedy", {"name": "ridge", "noise": 0.0}, regularization=PENALTY),
    "fairbandit oful": _ours(
        "oful",
        {"name": "optimistic_ridge"},
        regularization=PENALTY,
        exploration=BONUS,
    ),
    "fairbandit LinUCB": _ours(
        "oful",
        {"name": "optimistic_ridge", "radius": "constant"},
        regularization=PENALTY,
        exploration=Range(1.0, 1e-3, 10.0),
    ),
    "fairbandit lin_ts": _ours(
        "lin_ts", {"name": "thompson_ridge"}, regularization=PENALTY, scale=Range(1.0, 0.01, 5.0)
    ),
    "fairbandit fair_greedy": _ours(
        "fair_greedy", {"name": "ridge"}, "fair", regularization=PENALTY
    ),
    "fairbandit auto greedy": _ours("greedy", {"name": "ridge", "noise": 0.0, **AUTO}),
    "fairbandit auto fair_greedy": _ours("fair_greedy", {"name": "ridge", **AUTO}, "fair"),
    "fairbandit network greedy": _network(
        "greedy", {"name": "ridge", "noise": 0.0}, regularization=PENALTY
    ),
    "fairbandit network oful": _network(
        "oful", {"name": "optimistic_ridge"}, regularization=PENALTY, exploration=BONUS
    ),
    "fairbandit network fair_greedy": _network(
        "fair_greedy", {"name": "ridge", "noise": 0.0}, "fair", regularization=PENALTY
    ),
    "VW epsilon-greedy": _vowpal("", epsilon=Range(0.05, 1e-3, 0.3)),
    "VW squarecb": _vowpal("--squarecb", gamma_scale=Range(10.0, 1.0, 3e3)),
    "VW regcbopt": _vowpal("--regcbopt", bounded=True, mellowness=Range(0.1, 1e-4, 1.0)),
    "coba LinUCB": _coba("LinUCBLearner", "alpha", Range(1.0, 1e-3, 10.0)),
    "coba LinTS": _coba("LinTSLearner", "v", Range(1.0, 1e-4, 25.0)),
    "bayesianbandits LinTS": Learner(
        "bayesianbandits",
        _bayesian,
        {"alpha": Range(1.0, 1e-2, 1e2), "beta": Range(1.0, 0.04, 1e4)},
        True,
    ),
    "uniform picks": _ours("uniform"),
}
