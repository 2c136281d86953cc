"""`fairbandit theory` prints what it computes, and says what it cannot."""

import re

import numpy as np
import pytest

from fairbandit.theory import constants, pick_moments, regret, repaired_floor
from tests import support
from tests.environments import data


def rows(out: str) -> dict[str, list[str]]:
    """The cells of the printed tables by their first one."""
    found = {}
    for line in out.splitlines():
        if line[:1] in ("│", "┃"):
            name, *cells = (cell.strip() for cell in re.split("[┃│]", line)[1:-1])
            found[name] = cells
    return found


def near(cell: str, value: float) -> bool:
    """Whether a cell says a number with four digits, whatever stands before it."""
    said = float(cell.split("= ")[-1].split(" ±")[0].replace(",", ""))
    return said == pytest.approx(value, rel=1e-3)


def test_the_simulation(command):
    """The paper's theorem and the repaired one, and the constant of the instance."""
    code, out, err = command("theory", "environment=simulation")
    assert (code, err) == (0, "")
    printed = rows(out)
    world = support.environment()
    known = constants(world)
    for column, repaired in ((0, False), (1, True)):
        bound = regret(known, 5000, repaired=repaired)
        for name, value in {
            "λ_min(Ŝ) grows a round by": bound.growth / 4,
            "confidence set of μ*": bound.confidence,
            "regularisation": bound.shrinkage,
            "empirical CDFs": bound.ranks,
            "warm-up": bound.warm_up,
            "R_F(T) is at most the sum": bound.total,
        }.items():
            assert near(printed[name][column], value), name
    assert "th:regret, whose proof has a gap: lm:eiguen" in " ".join(out.replace("┃", " ").split())
    assert near(printed["the sum is below T from T ="][0], 371_067_964_775)
    assert near(printed["λ⁺_min(Σ)"][0], 0.02067)
    kappas = [f"κ = {kappa:g}" for kappa in (0, 0.01, 0.02, 0.05, 0.1)]
    for kappa, found in zip(kappas, pick_moments(world), strict=True):
        moment, ratio, _ = printed[kappa]
        assert near(moment, found.value)
        assert float(moment.split("± ")[1]) == pytest.approx(found.error, rel=0.05)
        assert near(ratio, 2 * found.value / known.eigenvalue.value)
    text = " ".join(out.split())
    floor = f"λ'/2 = {repaired_floor(known, 5000).moment:.4g}"
    for said in ("λ⁺_min(Σ)/2 = 0.01033", "λ₀ = 0.008684", "less than that", floor, "T/K = 1,250"):
        assert said in text


def test_random_pools(command, tmp_path):
    """Several candidates a group: q̄ comes in, and δ is split as in the theorem."""
    data.write(tmp_path / "people.csv", data.people())
    table = {"path": "people.csv", "group": "group", "reward": "wage", "pool": "random"}
    words = [f"environment.{key}={value}" for key, value in table.items()]
    code, out, err = command(
        "theory", "environment=table", *words, "environment.columns={age: null}", "alpha=0.7"
    )
    assert (code, err) == (0, "")
    world = support.environment("table", **table, columns={"age": None})
    printed, known = rows(out), constants(world)
    assert "th:regret_2" in out
    for column, repaired in ((0, False), (1, True)):
        bound = regret(known, 5000, alpha=0.7, repaired=repaired)
        assert near(printed["R_F(T) is at most the sum"][column], bound.total)
    lost = repaired_floor(known, 5000, 0.025, 0.7).lost
    assert f"after s = {lost:.4g} rounds" in out or f"after s = {lost:,.0f} rounds" in out
    for caveat in ("finitely many members", "the noisy reward is a column"):
        assert f"Caveat: {caveat}" in out


@pytest.mark.parametrize("name", ["census_gender", "census_ethnicity"])
def test_the_census(command, name):
    code, out, err = command("theory", f"environment={name}", "environment.root=sample")
    assert code == 0, err
    assert "Caveat: finitely many members" in out
    assert ("thm:linreg_opt)" in out) == (name == "census_gender")
    assert (rows(out)["κ = 0.05"] == ["0", "0", "∞"]) == (name == "census_ethnicity")


def test_parity_is_claimed_where_it_is_proved(command, tmp_path):
    """Half of group a have the one true reward and half the other; so a is picked too often."""
    draws, n = np.random.default_rng(0), 400
    groups, low = ["a"] * n + ["b"] * n, np.r_[np.arange(n) % 2, np.zeros(n)]
    wage = low + np.r_[np.zeros(n), draws.normal(size=n)]
    data.write(tmp_path / "two.csv", {"group": groups, "low": low, "high": wage - low, "y": wage})
    words = [f"environment.{word}" for word in ("path=two.csv", "group=group", "reward=y")]
    code, out, err = command("theory", "environment=table", *words)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "are equal with probability up to 0.5. Rare ties" in text
    assert "with probability 1/K" not in text
    code, out, _ = command("theory", "environment=table", *words, "environment.pool=random")
    assert "not proved here: lemma DGP assumes one candidate of each group" in " ".join(out.split())


def test_what_has_no_constant_says_so(command):
    """A group of one reward: M is infinite, there is no trade-off, and no parity is claimed."""
    code, out, _ = command("theory", "environment.groups=2", "environment.theta=[0,2,1]")
    assert code == 0
    text = " ".join(out.split())
    assert "M and the bounds are infinite; give the group a nonzero weight in" in text
    assert "thm:linreg_opt assumes two groups with one place each and densities" in text
    assert "are equal with probability up to 1. Rare ties" in text
