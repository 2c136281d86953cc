import pytest

from fairbandit import conformance


def test_a_good_part(command):
    code, out, err = command("check", "rank=identity")
    assert (code, err) == (0, "")
    first, *lines, cost, count = out.splitlines()
    assert first.startswith("rank identity (")
    assert "identity.py:" in first
    docs = [check.__doc__ or "" for check in conformance.checks("rank")]
    labels = [doc.split("\n")[0].rstrip(".") for doc in docs]
    assert lines == [f"  ✓ {label}" for label in labels]
    assert cost.startswith("  plays in 0.")
    assert "ms a round of 3 replicas (empirical_cdf: " in cost
    assert count == f"  {len(labels)} of {len(labels)} checks passed"


def test_several_parts_of_any_kind(command):
    code, out, _ = command("check", "selector=argmax", "environment=simulation")
    assert code == 0
    assert out.index("selector argmax (") < out.index("environment simulation (")


def test_a_plugin_with_hyperparameters(command, plugin):
    file = plugin("tuned", index="super()._index(candidates)")
    code, out, err = command("check", "rank=tuned", "rank.weight=7")
    assert (code, err) == (0, "")
    assert out.startswith(f"rank tuned (weight=7) ({file}:5)\n")
    plugin("bare", default="")
    code, out, _ = command("check", "rank=bare")
    assert code == 1
    assert "constructor arguments without a default: weight" in out
    plugin("broken", index="super()._index(candidates) / 0")
    code, out, err = command("check", "rank=broken")
    assert (code, err) == (1, "")
    assert "  ✗ " in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "fairbandit check: the following arguments are required: KIND=NAME"),
        (["policy=greedy"], "'policy=greedy' describes no part; expected KIND=NAME or KIND.KEY=VA"),
        (["rank=no_such"], "unknown rank 'no_such'; the registered ones are empirical_cdf"),
        (["rank=identity", "split.x=1"], "'split.x=1' must come after the split"),
        (["rank=recent_cdf", "rank.size=["], "size=[: the value cannot be read: while parsing a"),
    ],
)
def test_wrong_words(command, words, message):
    code, out, err = command("check", *words)
    assert (code, out) == (1, "")
    assert err.startswith("fairbandit: error: ")
    assert message in err


def test_an_unknown_hyperparameter_is_a_failed_check(command):
    code, out, _ = command("check", "rank=identity", "rank.alpha=1")
    assert code == 1
    assert "rank 'identity' has no parameter 'alpha'; it takes none" in out
