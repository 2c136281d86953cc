"""`fairbandit theory` prints what it computes, and says what it cannot."""

import re

import pytest

from tests.environments import data


def test_the_simulation(command):
    code, out, err = command("theory", "environment=simulation")
    assert (code, err) == (0, "")
    for label in ("th:regret", "th:regret_2", "lm:boundmu", "lm:dwk", "prop:patlowerbound"):
        assert label in out
    assert "371,067,964,775" in out
    assert "nothing follows from th:regret and th:regret_2" in out
    assert "thm:linreg_opt speaks of two groups; here G = 4" in out
    assert "corr:equalprob" not in out


def test_two_groups(command):
    two = ("environment=simulation", "environment.groups=2", "environment.theta=[2,1,1]")
    code, out, _ = command("theory", *two, "rounds=1e12", "epsilon=0.5", "delta=0.01")
    assert code == 0
    assert "thm:linreg_opt" in out
    assert "nothing follows" not in out


def test_random_pools(command, tmp_path):
    data.write(tmp_path / "people.csv", data.people())
    table = (
        "environment=table",
        "environment.path=people.csv",
        "environment.group=group",
        "environment.reward=wage",
        "environment.columns={age: null}",
        "environment.pool=random",
    )
    code, out, err = command("theory", *table)
    assert (code, err) == (0, "")
    for label in ("corr:equalprob", "lm:dwk_2", "prop:patlowerbound_2", "kernel density"):
        assert label in out
    assert "Caveat: the noisy reward is a column" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["epsilon=much"], "epsilon must be a number, got 'much'"),
        (["replicas=3"], "'replicas=3' is none of environment=NAME"),
        (["environment=nowhere"], "unknown environment 'nowhere'"),
        (["environment.colour=1"], "has no parameter 'colour'"),
        (["delta=2"], "delta must be above 0 and below 1"),
        (["environment.theta=[1"], "environment.theta=\\[1"),
    ],
)
def test_words_that_make_no_sense(command, words, message):
    code, _, err = command("theory", *words)
    assert code == 1
    assert re.search(message, err), err


@pytest.mark.parametrize("word", ["delta=1e-300", "rounds=1e300", "regularization=1e-310"])
def test_extreme_numbers(command, word):
    """Logarithms are taken of each factor, and what is beyond floating point is infinite."""
    code, out, err = command("theory", "environment=simulation", word)
    assert (code, err) == (0, "")
    assert "nan" not in out


def test_it_teaches(command):
    _, out, _ = command("theory", "--help")
    assert "environment.KEY=VALUE" in out
    assert "examples:" in out


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("environment.bias=1e300", "at most 1e+50 in size"),
        ("environment.noise=${nope}", "noise: expected plain data; got '${nope}'"),
        ("environment.name=table", "is none of environment=NAME"),
    ],
)
def test_words_that_cannot_be_meant(command, word, message):
    code, out, err = command("theory", word)
    assert code == 1
    assert message in err
    assert "Traceback" not in out + err
