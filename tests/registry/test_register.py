"""Building by name: every mistake has one clear message."""

import inspect
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from torch import Tensor

from fairbandit import FairbanditError, build, registry
from fairbandit.environments import Simulation
from fairbandit.ranks import Identity
from fairbandit.registry import _registry
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
    del _registry["selector"]["test_part"]


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
        (
            {"shared": 1},
            r"'shared' \(did you mean 'share'\?\); it takes share, count, shade, sizes, extra",
        ),
        ({"share": "much"}, r"share: Value 'much' of type 'str' could not be converted to Float"),
        ({"shade": "grey"}, r"expected one of \[light, dark\]"),
        ({"extra": {"a": ["${oc.env:HOME}"]}}, "expected plain data; got .* an interpolation"),
    ],
)
def test_bad_values(part: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        registry.create("selector", {"name": "test_part", **given})


def test_enums_are_named_in_python_too(part: Any) -> None:
    assert part(shade="dark").shade is part(shade=Shade.dark).shade
    with pytest.raises(
        FairbanditError, match="unknown shade of TestPart 'grey'; expected one of light"
    ):
        part(shade="grey")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"split": "thirds", "estimator": "ridge", "rank": "identity"}, "'thirds'.*full, halves"),
        ({"name": "mars"}, "unknown environment 'mars'.*simulation"),
        (
            {"split": "full", "estimator": "ridge", "ranks": "identity"},
            r"unknown: \['ranks'\], missing: \['rank'\]",
        ),
        ({"split": 3, "estimator": "ridge", "rank": "identity"}, "expected a registered name, or"),
        (
            {"split": "full", "estimator": "ridge", "rank": "mine"},
            r"load_plugins\(\).*FAIRBANDIT_PLUGINS",
        ),
    ],
)
def test_what_cannot_be_built(config: dict[str, Any], message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        build(config)


class Lacking(Selector):
    """Writes nothing."""


class Other(Argmax):
    """Another."""


@pytest.mark.parametrize(
    ("kind", "name", "cls", "message"),
    [
        ("selector", "test_part", Other, "two classes.*TestPart.*Other"),
        ("oven", "x", Other, "kinds are split, estimator, rank, selector"),
        ("selector", "mine", Lacking, r"Lacking \(.*\) as selector .* that implements _inclusion"),
        *(
            ("selector", "mine", cls, r"expected a subclass of fairbandit\.sel.*Selector")
            for cls in (object, Identity, Simulation, lambda: None)
        ),
        *(  # they would mean something else in a config, on the command line or in a path
            ("selector", name, Other, "expected a name of at most 64 letters")
            for name in ("a/b ../c", "", ".x", "-x", "1st", "a=b", "ä", "x" * 65, 5)
        ),
    ],
)
def test_what_cannot_be_registered(part: Any, kind: str, name: Any, cls: Any, message: str) -> None:
    known = registry.names("selector")
    with pytest.raises(FairbanditError, match=message):
        registry.register(kind, name)(cls)
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
        (bytes, b"a"),
        (Path, Path("folder/a")),
        (Shade, Shade.dark),
        (int | str, "a"),
        (Sequence[Sequence[float]], [[1.0]]),
        (Mapping[str, Any], {"a": None}),
        (Any, {"a": [1, None]}),
    ],
)
def test_annotations_that_a_config_can_hold(
    annotation: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_registry, "selector", {})
    registry.register("selector", "annotated")(with_argument(annotation))
    made = registry.create("selector", {"name": "annotated", "x": value})
    assert made.x == value
    assert registry.create("selector", registry.describe(made)).x == value
