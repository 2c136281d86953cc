"""Constants against hand-computed cases, Monte Carlo, and numpy."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairbandit import FairbanditError
from fairbandit.environments import Table
from fairbandit.theory import constants, pick_moments
from fairbandit.theory.constants import context_factor, least_eigenvalue
from tests import support
from tests.theory.problems import Tight


def test_the_simulation_by_hand():
    """L² = 4 + 9²; λ⁺ is the lesser root of x² − (13/12 + 126)x + 126/12, over K; M = 1/3."""
    known = constants(support.environment())
    assert (known.places, known.groups, known.features) == (4, 4, 17)
    assert known.norm.value == pytest.approx(math.sqrt(85))
    trace, det = 13 / 12 + 126, 126 / 12
    lesser = (trace - math.sqrt(trace**2 - 4 * det)) / 2
    assert known.eigenvalue.value == pytest.approx(lesser / 4, rel=1e-10)
    assert known.eigenvalue.value == pytest.approx(0.02067, abs=5e-6)
    # four uniforms on [0, 2]: the Irwin-Hall density of order 4 is 2/3 at its centre
    assert known.density.value == pytest.approx(1 / 3)
    assert known.noise.value == 2.0
    assert known.theta == pytest.approx(math.sqrt(16 + 9 + 49 + 64 + 25 + 25 + 16 + 1))
    assert known.own_places
    assert known.share == 1


@pytest.mark.parametrize("bias", [1e-9, 3.0, 1e6])
def test_the_least_eigenvalue_beside_a_huge_one(bias):
    """Exact rationals: with K = G = 2 and one feature each, Σ's characteristic polynomial."""
    world = support.environment(groups=2, theta=[1, 1, 1], bias=bias)
    third, half, b = Fraction(1, 6), Fraction(bias) / 4, Fraction(bias) ** 2 / 2
    # Σ = diag(1/6) and the block [[1/6, bias/4], [bias/4, bias²/2]]
    trace, det = third + b, third * b - half**2
    with localcontext() as context:
        context.prec = 80
        t, q = (Decimal(x.numerator) / Decimal(x.denominator) for x in (trace, det))
        lesser = 2 * q / (t + (t * t - 4 * q).sqrt())
    expected = min(float(lesser), 1 / 6)
    assert least_eigenvalue(context_factor(world))[0] == pytest.approx(expected, rel=1e-6)


def table(folder: Path, **parameters: Any) -> Table:
    """Nine people of group a, three of b; the last column is the sum of the others."""
    lines = ["group,x,y,z,pay"]
    for i in range(12):
        x, y = i * i % 7, i**3 % 5
        lines.append(f"{'aab'[i % 3] if i < 9 else 'a'},{x},{y},{x + y},{i % 5}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    given = {"path": str(folder / "people.csv"), "group": "group", "reward": "pay"}
    columns = dict.fromkeys("xyz")
    made = support.environment("table", **given, columns=columns, group_feature=False, **parameters)
    assert isinstance(made, Table)
    return made


def test_a_table_by_hand(tmp_path):
    """Random pools: means over groups and over members differ; Σ has not full rank."""
    world = table(tmp_path, pool="random", candidates=6, rewards="model", noise=0.5)
    known = constants(world)
    assert known.random
    assert known.candidates.value == pytest.approx(6 * 3 / 12)
    assert known.noise.value == 0.5
    x, groups = world.members.contexts.numpy(), world.members.groups.numpy()
    by_group = [x[groups == g].T @ x[groups == g] / (groups == g).sum() for g in (0, 1)]
    mean = sum(by_group) / 2
    rank = np.linalg.matrix_rank(mean)
    assert rank < world.features
    assert known.eigenvalue.value == pytest.approx(np.linalg.eigvalsh(mean)[-rank])
    assert known.place_eigenvalue.value == pytest.approx(np.linalg.eigvalsh(x.T @ x / 12)[-rank])
    assert known.norm.value == pytest.approx(np.linalg.norm(x, axis=1).max())
    assert "finitely many members" in known.caveats[0]
    found = pick_moments(world, [0.0])[0]
    assert 0 < found.value < known.place_eigenvalue.value * 6


def test_the_noise_of_a_column(tmp_path):
    """Bounded noise is subgaussian with half its range (Hoeffding's lemma)."""
    world = table(tmp_path, rewards="column", noise=0.3)
    known = constants(world)
    assert known.own_places
    left = world.members.rewards - world.members.expected
    half = max(float(np.ptp(left[world.members.groups == g].numpy())) / 2 for g in (0, 1))
    assert known.noise.value == pytest.approx(math.hypot(half, 0.3))
    assert any("assumption i" in caveat for caveat in known.caveats)


def test_what_theory_does_not_take():
    with pytest.raises(FairbanditError, match="constants of environment 'Tight' are not known"):
        constants(Tight())
