"""Every fault that a plugin can have is caught, and its message names it."""

import random
import re

import numpy as np
import pytest
import torch
from torch._C import _len_torch_function_stack

from fairbandit import FairbanditError, conformance, registry
from fairbandit.conformance import ConformanceError, leaving
from fairbandit.plugins import load_plugins
from fairbandit.streams import GRID
from tests import support

BROKEN = support.REPOSITORY / "tests" / "plugins" / "broken"

FAULTS = {
    "broken_shape": (
        conformance.shapes,
        r"the index has shape \(12, 4\) and torch.float64; "
        r"expected \(B, N, K\) = \(12, 4, 6\) and torch.float64",
    ),
    "broken_nan": (
        conformance.finite_in_range,
        r"indices after 2 rounds are not finite or not from 0 to 1, such as nan for "
        r"replica \d+, round \d, place \d \(group \d\)",
    ),
    "broken_falling": (conformance.monotone, "not monotone: in round "),
    "broken_random": (
        conformance.leaves_global_generators,
        "it draws from torch's global generator",
    ),
    "broken_state": (
        conformance.resumes,
        "a run never stopped and one resumed from its state give different indices, first at "
        f"round {GRID + 1}",
    ),
    "broken_reach": (
        conformance.reads_no_later,
        r"the decision at round \d+ changes with a reward later than that of round \d+, the last "
        "one it says it reads",
    ),
    "broken_keys": (
        conformance.resumes,
        r"the state of rank 'broken_keys' had the keys \[\] after `bind` and has \['rounds'\] now: "
        r"a part's `state\(\)` must have the same keys from `bind` on",
    ),
    "broken_dtype": (
        conformance.leaves_settings,
        "`bind` changes torch's default dtype; settings are the user's",
    ),
}
"""The check that catches each fault of a rank, and what it says."""

CHANGED = {
    "broken_contexts": ("rank", "`_index` changes `candidates.contexts`, which it was given"),
    "broken_groups": ("rank", "`_index` changes `candidates.groups`, which it was given"),
    "broken_scores": ("rank", "`_index` changes `candidates.scores`, which it was given"),
    "broken_count": ("rank", "`_index` changes `candidates.past.count`, which it was given"),
    "broken_past": ("rank", r"`_index` changes `candidates.history.rewards`, which it was given"),
    "broken_draws": ("rank", "`_index` changes the draws of a stream, which it was given"),
    "broken_truth": ("rank", "`_index` changes `problem.truth.theta`, which it was given"),
    "broken_observed": ("rank", "`observe` changes `contexts`, which it was given"),
    "broken_tie": ("rank", "`upper_index` changes `index`, which it was given"),
    "broken_loaded": ("rank", r"`observe` changes `state\['sum'\]`, which it was given earlier"),
    "broken_buffer": ("rank", "`_index` changes what `_index` returned earlier"),
    "broken_gradient": ("rank", "`_index` returns a tensor that requires grad"),
    "broken_outcomes": ("estimator", "`_models` changes `outcomes.rewards`, which it was given"),
    "broken_absorb": ("estimator", "`absorb` changes `outcomes.contexts`, which it was given"),
    "broken_mask": ("selector", "`_weights` changes `candidates.index`, which it was given"),
    "broken_rounds": ("split", "`_divide` changes `t`, which it was given"),
    "broken_pools": ("environment", r"`_pools` changes what `_pools` returned earlier"),
    "broken_noise": ("environment", "`_pools` changes the draws of a stream"),
}
"""The kind of each part that changes or returns a tensor that it must not, and what is said."""

DRAWN = {
    "broken_seed": ("rank", "in `_index` it draws from torch's global generator, or seeds it"),
    "broken_pick": (
        "selector",
        "in `_weights` it draws from NumPy's global generator, or seeds it",
    ),
}
"""The same of parts that use a global generator."""

OTHERS = {"broken_raise", "broken_needs"}
"""Parts with a test of their own."""


@pytest.fixture(autouse=True)
def _loaded(clean, monkeypatch):
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(BROKEN))
    load_plugins()


def test_every_file_is_tried():
    files = {path.stem for path in BROKEN.glob("*.py")}
    assert files == {*FAULTS, *CHANGED, *DRAWN, *OTHERS}
    assert files <= {name for kind in registry.KINDS for name in registry.names(kind)}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught(name):
    check, message = FAULTS[name]
    assert check in conformance.checks("rank")
    with pytest.raises(FairbanditError, match=message):
        check("rank", name)


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_tensor_is_named(name):
    kind, message = CHANGED[name]
    assert conformance.leaves_tensors in conformance.checks(kind)
    with pytest.raises(ConformanceError, match=message):
        conformance.leaves_tensors(kind, name)


@pytest.mark.parametrize("name", DRAWN)
def test_a_global_generator_is_named(name):
    kind, message = DRAWN[name]
    assert conformance.leaves_global_generators in conformance.checks(kind)
    with pytest.raises(ConformanceError, match=message):
        conformance.leaves_global_generators(kind, name)


@pytest.mark.parametrize("name", FAULTS)
def test_the_tool_names_the_fault(name, command):
    check, message = FAULTS[name]
    code, out, err = command("check", f"rank={name}")
    assert (code, err) == (1, "")
    label = (check.__doc__ or "").strip().rstrip(".")
    if name in ("broken_falling", "broken_state", "broken_keys", "broken_dtype"):
        assert out.count("✗") == 1
        assert "15 of 16 checks passed" in out
    assert torch.get_default_dtype() == torch.float32
    assert re.search(rf"✗ {re.escape(label)}: .*{message}", out), out


def test_the_tool_names_a_changed_tensor(command):
    code, out, err = command("check", "environment=broken_noise")
    assert (code, err) == (1, "")
    assert out.count("✗") == 1
    assert (
        "✗ Changes no tensor that it was given or returned before; returns none that requires "
        "grad: `_pools` changes the draws of a stream, which it was given; no such tensor may "
        "change: work on a `.clone()`" in out
    )


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("contexts", lambda given: given.contexts.numpy().fill(0)),
        ("contexts", lambda given: given.contexts.data.zero_()),
        ("contexts", lambda given: given.contexts.set_(given.contexts * 2)),
        ("contexts", lambda given: given.contexts.requires_grad_()),
        ("contexts", lambda given: given.contexts[:, :, 0].zero_()),
        ("groups", lambda given: given.groups.unsqueeze_(0)),
        ("present", lambda given: given.present.zero_()),
        ("division.stop", lambda given: given.division.stop.sub_(1)),
        ("of_round", lambda given: given.of_round.add_(1)),
        ("rounds", lambda given: given.rounds.zero_()),
        ("model.parameters[0]", lambda given: given.model.theta.neg_()),
        ("upper_scores", lambda given: given.upper_scores.zero_()),
        ("tie_tolerance", lambda given: given.tie_tolerance.zero_()),
        ("past.mean", lambda given: given.past.mean.zero_()),
        ("past.every.variance", lambda given: given.past.every.variance.zero_()),
    ],
)
@pytest.mark.parametrize("autograd", [True, False])
def test_however_a_tensor_is_changed(what, change, autograd, monkeypatch):
    def _index(self, candidates):
        index = candidates.past.count_le(candidates.scores) / len(candidates.rounds) / 1000
        change(candidates)
        return index

    cls = registry.lookup("rank", "broken_count")
    monkeypatch.setattr(cls, "_index", _index)
    monkeypatch.setattr(cls, "autograd", autograd)  # if not, all happens in inference mode
    with pytest.raises(ConformanceError, match=rf"`_index` changes `candidates\.{re.escape(what)}"):
        conformance.leaves_tensors("rank", "broken_count")


@pytest.mark.parametrize(
    ("setting", "change"),
    [
        ("torch's number of threads", lambda: torch.set_num_threads(1)),
        ("torch's default device", lambda: torch.set_default_device("meta")),
        ("whether torch records gradients", lambda: torch.set_grad_enabled(False)),
        (
            "torch's deterministic algorithms",
            lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        ),
        (
            "torch's precision of float32 products",
            lambda: torch.set_float32_matmul_precision("medium"),
        ),
        ("NumPy's handling of floating-point errors", lambda: np.seterr(invalid="ignore")),
    ],
)
def test_every_setting_is_watched_and_put_back(setting, change, monkeypatch):
    monkeypatch.setattr(registry.lookup("rank", "broken_dtype"), "bind", lambda self, _: change())
    before, modes = leaving._settings(), _len_torch_function_stack()
    with pytest.raises(ConformanceError, match=f"`bind` changes {setting}"):
        conformance.leaves_settings("rank", "broken_dtype")
    assert leaving._settings() == before
    assert _len_torch_function_stack() == modes  # each of them slows every later call down


def test_a_constructor_is_watched(monkeypatch):
    seeding = registry.lookup("rank", "broken_seed")
    monkeypatch.setattr(seeding, "__init__", lambda self: torch.manual_seed(0) and None)
    before = torch.get_rng_state()
    with pytest.raises(ConformanceError, match="in `__init__` it draws from torch's"):
        conformance.leaves_global_generators("rank", "broken_seed")
    assert torch.equal(torch.get_rng_state(), before)


def test_old_outcomes_that_were_not_asked_for(command, monkeypatch):
    monkeypatch.setattr(conformance.report, "TIMED", GRID + 1)
    code, out, err = command("check", "rank=broken_needs")
    assert (code, err) == (1, "")
    assert "✗ Continues from a saved state" in out
    assert 'unless a part declares needs = frozenset({"rewards"})' in out
    assert "✗ Plays the rounds that are timed: past outcomes: rows 1 to 256 are not kept" in out


def test_an_error_inside_a_part_is_a_failed_check(command):
    code, out, err = command("check", "rank=broken_raise")
    assert (code, err) == (1, "")
    line = 1 + (BROKEN / "broken_raise.py").read_text().split("\n").index(
        '        return candidates.scores * weights["bandwidth"]'
    )
    assert "✗ Plays some rounds without breaking" in out
    assert f"KeyError: 'bandwidth' (broken_raise.py:{line})" in out
    assert "– Decides alike when run twice under one seed: not tried, for the fault above" in out


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        ("Python's", random.random),
        ("NumPy's", np.random.standard_normal),
        ("Python's", lambda: random.seed(0)),
        ("NumPy's", lambda: np.random.seed(0)),  # noqa: NPY002
    ],
)
def test_every_global_generator_is_watched(generator, draw, monkeypatch):
    def _index(self, candidates):
        draw()
        return candidates.groups.double().clamp(0, 1)

    monkeypatch.setattr(registry.lookup("rank", "broken_random"), "_index", _index)
    for _ in range(2):  # NumPy's key changes only every so many draws
        with pytest.raises(ConformanceError, match=f"draws from {generator} global generator"):
            conformance.leaves_global_generators("rank", "broken_random")
