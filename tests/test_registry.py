"""Building by name: every mistake has one clear message."""

import inspect
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from torch import Tensor

import fairbandit
from fairbandit import FairbanditError, build, registry
from fairbandit.environments import Simulation
from fairbandit.plugins import load_plugins
from fairbandit.ranks import Identity
from fairbandit.selectors import Argmax, Selector


class Shade(Enum):
    light = 1
    dark = 2


@pytest.fixture
def part() -> Any:
    @registry.register("selector", "test_part")
    class TestPart(Argmax):
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
        ({"shade": "grey"}, r"expected one of \[light, dark\]"),
        ({"sizes": ["x"]}, "could not be converted to Integer"),
        ({"count": 2**63}, "count: expected an integer of 64 bits"),
        ({"extra": {"a": ["${oc.env:HOME}"]}}, "expected plain data; got .* an interpolation"),
    ],
)
def test_bad_values(part: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        registry.create("selector", {"name": "test_part", **given})


def test_enums_are_named_in_python_too(part: Any) -> None:
    assert part(shade="dark").shade is part(shade=Shade.dark).shade
    with pytest.raises(FairbanditError, match="shade: expected one of light, dark; got 'grey'"):
        part(shade="grey")


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
    class Other(Argmax):
        """Another."""

    with pytest.raises(FairbanditError, match=r"two classes.*TestPart.*Other"):
        registry.register("selector", "test_part")(Other)


def test_an_unknown_kind() -> None:
    with pytest.raises(FairbanditError, match="kinds are split, estimator, rank, selector"):
        registry.register("oven", "x")


@pytest.mark.parametrize(
    "name", ["a/b ../c", "", ".x", "-x", "1st", "a=b", "ä", "x" * 65, "null", 5]
)
def test_names_that_are_refused(name: Any) -> None:
    """They would mean something else in a config, on the command line or in a path."""
    with pytest.raises(FairbanditError, match="expected a name of at most 64 letters"):
        registry.register("selector", name)


def test_classes_that_are_no_part_of_the_kind() -> None:
    class Lacking(Selector):
        """Writes nothing."""

    known = registry.names("selector")
    for cls in (object, Identity, Simulation, lambda: None):
        with pytest.raises(
            FairbanditError, match=r"expected a subclass of fairbandit\.sel.*Selector"
        ):
            registry.register("selector", "mine")(cls)  # type: ignore[type-var]
    with pytest.raises(FairbanditError, match=r"Lacking \(.*\) as sel.* that writes _weights"):
        registry.register("selector", "mine")(Lacking)
    assert registry.names("selector") == known


def with_argument(annotation: Any, default: Any = inspect.Parameter.empty, key: str = "x") -> type:
    """A selector whose constructor takes one argument."""

    def init(self: Any, **values: Any) -> None:
        setattr(self, key, values[key])

    one = inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    init.__annotations__ = {key: annotation}
    init.__signature__ = inspect.Signature([own, one])  # type: ignore[attr-defined]
    return type("Annotated", (Argmax,), {"__init__": init})


class Positional(Argmax):
    """A selector whose constructor takes a positional argument."""

    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("cls", "at_fault"),
    [
        *(
            (with_argument(annotation), "x")
            for annotation in (set[int], dict[str, set[int]], int | list[int], object, Tensor, None)
        ),
        (with_argument(Literal["a", "b"]), "Literal[a, b]"),
        (with_argument(int, "many"), "Value 'many' of type 'str' could not be converted to Int"),
        (with_argument("Nowhere"), "name 'Nowhere' is not defined"),
        (with_argument(str, key="name"), "Field name duplicated: 'name'"),
        (Positional, "'size' is not keyword-only and annotated"),
    ],
)
def test_arguments_that_no_config_can_hold(cls: type, at_fault: str) -> None:
    message = "no config can hold the arguments of its constructor: "
    with pytest.raises(FairbanditError, match=f"{message}.*{re.escape(at_fault)}.*; expected key"):
        registry.register("selector", "annotated")(cls)
    assert "annotated" not in registry.names("selector")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (bool, True),
        (float, 2.5),
        (bytes, b"a"),
        (Path, Path("folder/a")),
        (Shade, Shade.dark),
        (int | str, "a"),
        (int | None, None),
        (Sequence[Sequence[float]], [[1.0]]),
        (tuple[int, ...], [1, 2]),
        (Mapping[str, Any], {"a": None}),
        (Sequence[int] | None, [1]),
        (Any, {"a": [1, None]}),
    ],
)
def test_annotations_that_a_config_can_hold(
    annotation: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._registry, "selector", {})
    registry.register("selector", "annotated")(with_argument(annotation))
    made = registry.create("selector", {"name": "annotated", "x": value})
    assert made.x == value
    assert registry.create("selector", registry.describe(made)).x == value


def test_an_unknown_part_says_how_plugins_are_loaded() -> None:
    policy = {"split": "halves", "estimator": "ridge", "rank": "my_rank"}
    for make in (build, lambda config: fairbandit.Agent.from_config(config, features=2)):
        with pytest.raises(FairbanditError, match=r"load_plugins\(\).*FAIRBANDIT_PLUGINS"):
            make(policy)
    assert fairbandit.load_plugins is load_plugins
