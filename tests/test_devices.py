"""Nothing is made on a fixed device: runs on a device of which there is only the name.

`SecondDevice` lets tensors live "on" `meta`: they keep their values in ordinary memory and report
that device. As with a real second device, an operation on tensors of both is an error, and so is
handing one to NumPy. It asks for more than a real one: an index has to be on the device of what it
indexes, and whoever makes a tensor has to say where. Where there is a GPU, it plays the same runs.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

import fairbandit
from fairbandit import Engine, Policy, build, registry
from fairbandit.counting import sorted_segment
from fairbandit.counting.sorted_segment import Costs, SortedCounts
from fairbandit.environments import Environment
from fairbandit.maths.picks import of_pick
from fairbandit.metrics import Played
from fairbandit.parts import Outcomes
from fairbandit.streams import GRID
from tests import support

PACKAGE = Path(fairbandit.__file__).parent

HERE, THERE = torch.device("cpu"), torch.device("meta")

GPU = torch.device("cuda:0") if torch.cuda.is_available() else None

LEAVING = {Tensor.tolist, Tensor.item, Tensor.__bool__, Tensor.__int__, Tensor.__float__}
"""How numbers come back from any device."""

NUMPY: set[Any] = {Tensor.numpy, Tensor.__array__}

RANKS = sorted(registry.names("rank"))
ESTIMATORS = sorted(registry.names("estimator"))


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
        given = list(_leaves((args, kwargs)))
        tensors = [value for value in given if isinstance(value, Tensor)]
        there = any(isinstance(value, There) for value in tensors)
        if func == Tensor.device.__get__:
            return THERE if there else HERE
        if there and func in NUMPY:
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
        if func is Tensor.cpu or named == [HERE]:
            return _each(_brought, made)
        if func in LEAVING:
            return made
        if not tensors and not named and isinstance(made, Tensor):
            _must_not_be_ours(func)
        self.made += bool(named) and not tensors
        return _each(_sent, made) if there or named else made


def _leaves(value: Any) -> Iterator[Any]:
    """What `tree_flatten` finds in the arguments of an operation, in a third of the time."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, dict):
        yield from _leaves([*value.values()])
    else:
        yield value


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
    pairs = zip(tree_flatten(one)[0], tree_flatten(two)[0], strict=True)
    for a, b in pairs:
        if isinstance(a, Tensor):
            a, b = a.as_subclass(Tensor).cpu(), b.as_subclass(Tensor).cpu()
            torch.testing.assert_close(a, b, equal_nan=True)
        else:
            assert a == b


def play(
    settings: dict[str, Any], world: Environment, rounds: int, device: torch.device, **engine: Any
) -> tuple[list[dict[str, Any]], Any]:
    """Plays half of the rounds, and the others from the state left; what was played, the state."""
    pieces, state = list[Played](), None
    for until in (rounds // 2, rounds):
        chosen = build(settings)
        assert isinstance(chosen, Policy)
        run = Engine(
            chosen, world, rounds=until, seed=4, replicas=range(2), device=device, **engine
        )
        if state is not None:
            run.load_state(state)
        pieces += run.play()
        state = run.state()
    return [vars(piece) for piece in pieces], state


def everywhere(
    settings: dict[str, Any], make: Callable[[], Environment], rounds: int = 140, **engine: Any
) -> None:
    """Plays on all devices: the same decisions, and all that comes back is where it should be."""
    theirs = play(settings, make(), rounds, HERE, **engine)
    world = make()  # before a device is known
    with SecondDevice() as device:
        ours = play(settings, world, rounds, THERE, **engine)
    assert device.made > 0
    same(ours[0], theirs[0])  # a state has rows that hold anything
    kept = [value for value in tree_flatten(ours)[0] if isinstance(value, Tensor)]
    assert all(isinstance(value, There) for value in kept)
    if GPU is not None:
        same(play(settings, make(), rounds, GPU, **engine)[0], theirs[0])


@pytest.fixture
def sorting_in_use(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sorts past contexts wherever that can be done; counts how often it gave counts."""
    answered, ask = [0], SortedCounts.count_le

    def count_le(self: SortedCounts, *given: Any, **named: Any) -> Tensor | None:
        counts = ask(self, *given, **named)
        answered[0] += counts is not None
        return counts

    monkeypatch.setattr(SortedCounts, "count_le", count_le)
    often = Costs(entry=1.0, again=1e-9, search=0.0, sort=0.01)
    monkeypatch.setattr(Costs, "of", lambda *asked, **how: often)
    monkeypatch.setattr(sorted_segment, "SHORTEST", 16)
    return answered


@pytest.mark.parametrize(
    ("name", "at_once"),
    [*product(sorted(support.PRESETS), [1, GRID]), *product(sorted(support.NOTIONS), [GRID])],
)
def test_presets(name: str, at_once: int) -> None:
    rounds = 30 if at_once == 1 else 140
    everywhere({"name": name}, support.environment, rounds, at_once=at_once)


@pytest.mark.parametrize("split", ["halves", "full"])
@pytest.mark.parametrize("rank", RANKS)
def test_ranks(rank: str, split: str) -> None:
    parts = {"split": split, "estimator": "ridge", "rank": rank, **support.beside(rank)}
    rounds = 140 if parts["split"] == "halves" else 24
    everywhere(parts, support.environment, rounds)


@pytest.mark.parametrize("rank", ["empirical_cdf", "oracle_cdf"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators(estimator: str, rank: str) -> None:
    everywhere({"split": "halves", "estimator": estimator, "rank": rank}, support.environment)


@pytest.mark.parametrize("at_once", [1, GRID])
def test_the_sorted_segment(at_once: int, sorting_in_use: list[int]) -> None:
    settings = {"split": "halves", "estimator": "ridge", "rank": "empirical_cdf"}
    everywhere(settings, support.environment, 100 if at_once == 1 else 1100, at_once=at_once)
    assert sorting_in_use[0] > 8


@pytest.mark.parametrize("cdf", ["exact", "sampled"])
def test_simulation(cdf: str) -> None:
    def make() -> Environment:
        return support.environment("simulation", cdf=cdf, cdf_samples=1000)

    everywhere({"name": "gmf"}, make)


@pytest.mark.parametrize("kind", ["census_gender", "census_ethnicity"])
@pytest.mark.parametrize("name", ["fair_greedy", "fair_greedy_oracle_cdf"])
def test_census(kind: str, name: str) -> None:
    everywhere({"name": name}, lambda: support.census(kind), 70)


@pytest.mark.parametrize("name", ["fair_greedy", "oful", "fair_greedy_oracle_cdf"])
def test_what_others_decided(name: str) -> None:
    """A policy that looks on, learns a late reward, and then decides."""

    def decided(world: Environment, device: torch.device) -> Tensor:
        chosen = support.policy(name)
        run = Engine(chosen, world, rounds=20, seed=0, replicas=range(2), device=device)
        pools, history = world.pools(1, 20), run.history
        picks = pools.groups[:, :, 0].new_zeros(pools.groups.shape[:2])
        outcomes = Outcomes(
            *(of_pick(part, picks) for part in (pools.contexts, pools.groups, pools.rewards))
        )
        for t in range(1, 18):
            part = slice(t - 1, t)
            here = pools.contexts[:, part], pools.groups[:, part]
            history.add_pools(*here)
            if t == 4:
                chosen.decide(t, *here, history)
            else:
                given = Outcomes(*(known[:, part] for known in outcomes))
                chosen.observe(t, *here, given, history)
        chosen.learn(4, Outcomes(*(known[:, 3:4] for known in outcomes)), history)
        history.add_pools(pools.contexts[:, 17:], pools.groups[:, 17:])
        one = slice(17, 18)
        return chosen.decide(18, pools.contexts[:, one], pools.groups[:, one], history).actions

    theirs, world = decided(support.environment(), HERE), support.environment()
    with SecondDevice():
        ours = decided(world, THERE)
    assert isinstance(ours, There)
    same(ours, theirs)
    if GPU is not None:
        same(decided(support.environment(), GPU), theirs)


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


DECIDING = ["counting", "parts", "maths", "policy.py", "engine.py", "metrics"]

DEVICES = ("cpu", "cuda", "mps", "xpu")

FACTORIES = {"arange", "empty", "eye", "full", "linspace", "ones", "tensor", "zeros"}

NAMED = {
    "engine.py": 1,  # the default of `Engine(device=…)`
    "streams.py": 1,  # that of `Streams(device=…)`
    "parts/base.py": 1,  # whose memory the system knows
    "environments/simulation.py": 1,  # its truth, before a device is known
}
"""Where a device is named, and how often."""

UNPLACED = {
    "maths/buffers.py": 1,  # of no elements, until it is known whose memory it is
    "maths/moments.py": 1,  # of results, which are gathered in ordinary memory
    "metrics/reduction.py": 2,  # of results too
    "maths/uniform_sum.py": 4,  # made with an environment, and moved by `to`
}
"""Where a tensor is made without saying on which device, and how often."""


def counted(places: list[str], wanted: Callable[[ast.AST], bool]) -> dict[str, int]:
    """How many such nodes each file of some places has, if any."""
    files = [file for place in places for file in sorted((PACKAGE / place).rglob("*.py"))]
    files += [PACKAGE / place for place in places if place.endswith(".py")]
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    found = {
        file.relative_to(PACKAGE).as_posix(): sum(map(wanted, ast.walk(tree)))
        for file, tree in trees.items()
    }
    return {name: count for name, count in found.items() if count}


def test_no_device_is_named() -> None:
    """A device that is spelled out is a default, or made before a device is known."""

    def names_one(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in ("cuda", "is_cuda")
        return isinstance(node, ast.Constant) and str(node.value).split(":")[0] in DEVICES

    assert counted([*DECIDING, "environments", "streams.py"], names_one) == NAMED


def test_every_tensor_is_placed() -> None:
    """Whoever makes a tensor says where, also on paths that no test plays on another device."""

    def unplaced(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) == "torch"
            and node.func.attr in FACTORIES
            and all(word.arg != "device" for word in node.keywords)
        )

    assert counted(DECIDING, unplaced) == UNPLACED
