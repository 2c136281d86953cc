"""Nothing is made on a fixed device: runs on a device of which there is only the name.

`SecondDevice` lets tensors live "on" `meta`: they keep their values in ordinary memory and report
that device. As with a real second device, an operation on tensors of both is an error, and so is
handing one to NumPy. It asks for more than a real one: an index has to be on the device of what it
indexes, and whoever makes a tensor has to say where. Where there is a GPU, it plays the same runs.
Each part is played once; that a part decides alike in other ways is tested elsewhere.
"""

import sys
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

import fairbandit
from fairbandit import Engine, Policy, build
from fairbandit.environments import Environment
from fairbandit.history.sorted_segment import SortedSegment
from tests import support
from tests.agent import worlds
from tests.counting.test_against_dense import ways

PACKAGE = Path(fairbandit.__file__).parent

HERE, THERE = torch.device("cpu"), torch.device("meta")

GPU = torch.device("cuda:0") if torch.cuda.is_available() else None

LEAVING = {Tensor.tolist, Tensor.item, Tensor.__bool__, Tensor.__int__, Tensor.__float__}
"""How numbers come back from any device."""

NUMPY: set[Any] = {Tensor.numpy, Tensor.__array__}


class There(Tensor):
    """A tensor on the second device."""


class SecondDevice(TorchFunctionMode):
    """While it is on, `meta` is a device that can compute; see above.

    Attributes:
        made: how many tensors were made there by those who named the device.
    """

    made = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.device:
            return func(*args, **kwargs)
        given = tree_leaves((args, kwargs))
        tensors = [value for value in given if isinstance(value, Tensor)]
        there = any(isinstance(value, There) for value in tensors)
        if func == Tensor.device.__get__:
            return THERE if there else HERE
        if there and func in NUMPY and not kwargs.get("force"):
            raise RuntimeError("NumPy was given a tensor of the second device")
        if there and not all(isinstance(t, There) or t.ndim == 0 for t in tensors):
            raise RuntimeError(f"{func} was given tensors of both devices")
        named = [value for value in given if isinstance(value, torch.device)]
        if named:
            args, kwargs = tree_map(
                lambda v: HERE if isinstance(v, torch.device) else v, (args, kwargs)
            )
        with torch._C.DisableTorchFunctionSubclass():
            made = func(*args, **kwargs)
        if func is Tensor.numpy:
            return made
        if func is Tensor.cpu or named == [HERE]:
            return _each(_brought, made)
        if func in LEAVING:
            return made
        if not tensors and not named and isinstance(made, Tensor):
            _must_not_be_ours(func)
        self.made += bool(named) and not tensors
        return _each(_sent, made) if there or named else made


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """A result, or each of several, changed."""
    return tree_map(change, value) if isinstance(value, (tuple, list)) else change(value)


def _sent(value: Any) -> Any:
    return value.as_subclass(There) if type(value) is Tensor else value


def _brought(value: Any) -> Any:
    return value.as_subclass(Tensor) if type(value) is There else value


def _must_not_be_ours(func: Any) -> None:
    frame = sys._getframe(2)
    if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
        raise RuntimeError(
            f"{frame.f_code.co_filename}:{frame.f_lineno} makes a tensor and does not say where"
        )


def same(one: Any, two: Any) -> None:
    """What was played on both devices has equal values."""
    pairs = zip(tree_leaves(one), tree_leaves(two), strict=True)
    for a, b in pairs:
        if isinstance(a, Tensor):
            a, b = a.as_subclass(Tensor).cpu(), b.as_subclass(Tensor).cpu()
            torch.testing.assert_close(a, b, equal_nan=True)
        else:
            assert a == b


def play(
    settings: dict[str, Any], world: Environment, rounds: int, device: torch.device, **engine: Any
) -> tuple[list[dict[str, Any]], Any]:
    """Plays the rounds; returns what was played, and the history left."""
    chosen = build(settings)
    assert isinstance(chosen, Policy)
    how = {"replicas": range(2), **engine}
    run = Engine(chosen, world, rounds=rounds, seed=4, device=device, **how)
    return [vars(piece) for piece in run.play()], run.history.saved()


def there(
    settings: dict[str, Any], make: Callable[[], Environment], rounds: int, **engine: Any
) -> list[dict[str, Any]]:
    """Plays on the second device, where all that comes back must be, and on a GPU if there is one.

    The processor computes for both devices, so that a GPU alone may give other values.
    """
    world = make()  # before a device is known
    with SecondDevice() as device:
        ours = play(settings, world, rounds, THERE, **engine)
    assert device.made > 0
    kept = [value for value in tree_leaves(ours) if isinstance(value, Tensor)]
    assert all(isinstance(value, There) for value in kept)
    if GPU is not None:
        same(play(settings, make(), rounds, GPU, **engine)[0], ours[0])
    return ours[0]


POLICIES: dict[str, Any] = {
    **{name: {"name": name} for name in (*support.PRESETS, *support.NOTIONS)},
    **worlds.every_part("full"),
}

NETWORKS = {name: POLICIES.pop(name) for name in [*POLICIES] if "neural_linear" in name}
"""The weights of modules cannot be on the second device; a GPU plays these, if there is one."""

OPTIONS: list[dict[str, int]] = [{}, {"picks": 3}, {"at_once": 1}, {"picks": 6}]
"""Of six picks, pools of four leave some empty."""


@pytest.mark.parametrize(("name", "options"), support.some(zip(POLICIES, cycle(OPTIONS)), 3))
def test_every_preset_and_part(name: str, options: dict[str, int]) -> None:
    there(POLICIES[name], support.environment, 12 if "at_once" in options else 40, **options)


def test_networks() -> None:
    """Networks that are trained together, as on a GPU, decide like those that are trained alone."""
    (settings, *_), devices = NETWORKS.values(), [HERE, GPU or HERE]
    alone, together = (
        {**settings, "estimator": {"name": "neural_linear", "steps": 5, "together": flag}}
        for flag in (False, True)
    )
    plays = [
        play(chosen, support.environment(), 40, device)[0]
        for chosen, device in zip((alone, together), devices, strict=True)
    ]
    for one, other in zip(*plays, strict=True):
        assert torch.equal(one["actions"], other["actions"].cpu())


def test_a_sampled_truth() -> None:
    world = partial(support.environment, "simulation", cdf="sampled", cdf_samples=1000)
    there({"name": "gmf"}, world, 20)


def test_the_census() -> None:
    there({"name": "gmf"}, lambda: support.census.__wrapped__("census_ethnicity"), 20)


REFERENCE = {"split": "halves", "estimator": "ridge", "rank": "empirical_cdf"}


def test_the_sorted_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past contexts are sorted wherever that can be done."""
    answered, ask = [0], SortedSegment.count_le

    def count_le(self: SortedSegment, *given: Any) -> Any:
        counts = ask(self, *given)
        answered[0] += counts is not None
        return counts

    monkeypatch.setattr(SortedSegment, "count_le", count_le)
    with ways(searched=True):
        there(REFERENCE, support.environment, 600)
    assert answered[0]


@pytest.mark.parametrize("options", [{}, {"replicas": [0], "at_once": 1}])
def test_what_is_computed_otherwise_on_a_processor(options: dict[str, Any]) -> None:
    """How many outcomes a round reads, and the counts of a single pool."""
    found = there(REFERENCE, support.environment, 60, **options)
    same(found, play(REFERENCE, support.environment(), 60, HERE, **options)[0])


def test_the_second_device_is_strict() -> None:
    """What it is to catch, it catches."""
    here = torch.ones(3)
    with SecondDevice():
        there = torch.ones(3, device=THERE)
        assert there.device == (there + 1).device == there.new_zeros(2).device == THERE
        assert there.cpu().device == here.device == torch.ones(2, device="cpu").device == HERE
        assert (here.to(THERE) * there).tolist() == [1, 1, 1]
        assert isinstance(there.sort().values, There)
        for wrong in (
            lambda: there + here,
            lambda: there[torch.zeros(1).long()],
            lambda: torch.cat([there, here]),
            lambda: there.numpy(),
        ):
            with pytest.raises(RuntimeError, match=r"both devices|NumPy"):
                wrong()
        source = "torch.arange(3)"
        with pytest.raises(RuntimeError, match="does not say where"):
            exec(compile(source, str(PACKAGE / "made_up.py"), "exec"), {"torch": torch})
