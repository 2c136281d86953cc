"""Building by name: every mistake has one clear message."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import pytest

import fairbandit
from fairbandit import FairbanditError, Policy, build, registry
from fairbandit.environments import Simulation
from fairbandit.parts import Ridge
from fairbandit.plugins import load_plugins


class Shade(Enum):
    light = 1
    dark = 2


@pytest.fixture
def part() -> Any:
    @registry.register("selector", "test_part")
    class TestPart:
        """A part of these tests."""

        def __init__(
            self,
            *,
            share: float = 0.5,
            count: int | None = None,
            shade: Shade = Shade.light,
            sizes: Sequence[int] = (1, 2),
            extra: Mapping[str, Any] | None = None,
        ) -> None:
            self.share, self.count, self.shade = share, count, shade
            self.sizes, self.extra = sizes, extra

    yield TestPart
    del registry._registry["selector"]["test_part"]


def test_defaults_and_values(part: Any) -> None:
    made = registry.create("selector", "test_part")
    assert (made.share, made.count, made.shade, made.sizes) == (0.5, None, Shade.light, [1, 2])
    spec = {"name": "test_part", "share": 1, "count": 3, "shade": "dark", "extra": {"a": None}}
    made = registry.create("selector", spec)
    assert (made.share, made.count, made.shade, made.extra) == (1.0, 3, Shade.dark, {"a": None})
    assert registry.describe(made) == {**spec, "share": 1.0, "sizes": [1, 2]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shared": 1}, r"has no parameter 'shared'; it takes share, count, shade, sizes, extra"),
        ({"share": "much"}, r"share: Value 'much' of type 'str' could not be converted to Float"),
        ({"count": 1.5}, "count: Value '1.5'"),
        ({"shade": "grey"}, r"expected one of \[light, dark\]"),
        ({"sizes": ["x"]}, "could not be converted to Integer"),
        ({"count": 10**25}, f"count: expected an integer of 64 bits, got {10**25}"),
        ({"sizes": [1, -(2**63) - 1]}, "sizes: expected an integer of 64 bits"),
        ({"extra": {"a": [2**63]}}, "extra, a: expected an integer of 64 bits"),
        ({"share": "${nope}"}, "share: Interpolation key 'nope' not found"),
    ],
)
def test_bad_values(part: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        registry.create("selector", {"name": "test_part", **given})


def test_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(FairbanditError, match=r"unknown split 'thirds'.*full, halves"):
        build({"split": "thirds", "estimator": "ridge", "rank": "identity"})
    with pytest.raises(FairbanditError, match=r"unknown environment 'mars'.*simulation"):
        build({"name": "mars"})


def test_missing_and_unknown_kinds() -> None:
    with pytest.raises(FairbanditError, match=r"unknown: \['ranks'\], missing: \['rank'\]"):
        build({"split": "full", "estimator": "ridge", "ranks": "identity"})
    with pytest.raises(FairbanditError, match="expected a registered name, or a mapping"):
        build({"split": 3, "estimator": "ridge", "rank": "identity"})


def test_two_classes_under_one_name(part: Any) -> None:
    class Other:
        """Another."""

    with pytest.raises(FairbanditError, match=r"two classes.*TestPart.*Other"):
        registry.register("selector", "test_part")(Other)


def test_unknown_kind_and_untyped_constructor() -> None:
    with pytest.raises(FairbanditError, match="kinds are split, estimator, rank, selector"):
        registry.register("oven", "x")

    class Untyped:
        """Takes what it should not."""

        def __init__(self, size) -> None:
            self.size = size

    with pytest.raises(FairbanditError, match="'size' must be keyword-only and typed"):
        registry.register("selector", "untyped")(Untyped)
    assert "untyped" not in registry.names("selector")


def test_built_policies_and_environments() -> None:
    policy = build({"name": "mine", "split": "full", "estimator": "ridge", "rank": "identity"})
    assert isinstance(policy, Policy)
    assert isinstance(policy.estimator, Ridge)
    again = build(policy.describe())
    assert isinstance(again, Policy)
    assert again.describe() == policy.describe()
    assert isinstance(build({"name": "simulation"}), Simulation)


def test_which_parts_have_a_parameter() -> None:
    assert registry.having("rank", "alpha") == ["tradeoff"]
    with pytest.raises(
        FairbanditError, match=r"has no parameter 'alpha'.*ranks with 'alpha': trad"
    ):
        registry.create("rank", {"name": "identity", "alpha": 1})


def test_an_unknown_part_says_how_plugins_are_loaded() -> None:
    policy = {"split": "halves", "estimator": "ridge", "rank": "my_rank"}
    for make in (build, lambda config: fairbandit.Agent.from_config(config, features=2)):
        with pytest.raises(FairbanditError) as caught:
            make(policy)
        assert "fairbandit.load_plugins()" in str(caught.value)
        assert "FAIRBANDIT_PLUGINS" in str(caught.value)
    assert fairbandit.load_plugins is load_plugins


@pytest.mark.parametrize("name", [[], {"a": 1}, 7])
def test_a_name_that_is_no_text(name: Any) -> None:
    with pytest.raises(FairbanditError, match=r"the name of a policy .* must be a text, got"):
        build({"split": "halves", "estimator": "ridge", "rank": "identity", "name": name})
