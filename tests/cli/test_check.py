import re

from fairbandit import conformance


def test_good_parts_and_a_policy(command):
    code, out, err = command("check", "rank=identity", "policy=uniform", "policy.refresh=1.2")
    assert (code, err) == (0, "")
    rank, policy = out.split("policy uniform (refresh=1.2) is ")
    first, *lines, group, count = rank.splitlines()
    assert re.match(r"rank identity is Identity \(.*\.py:\d+\)$", first)
    labels = [check.__name__.replace("_", " ") for check in conformance.checks("rank")]
    assert [line.lower() for line in lines] == [f"  ✓ {label}" for label in labels]
    assert group == "  reads the group at the decision: only if a feature holds it"
    assert count == f"  {len(labels)} of {len(labels)} checks passed"
    assert policy.partition("\n")[0].endswith("policy/uniform.yaml")
    assert "  reads the group at the decision: no" in policy


def test_a_plugin_with_hyperparameters(command, plugin):
    file = plugin("tuned", index="super()._index(scored)")
    code, out, err = command("check", "rank=tuned", "rank.weight=7")
    assert (code, err) == (0, "")
    assert out.startswith(f"rank tuned (weight=7) is Mine ({file}:5)\n")
    plugin("bare", default="")
    code, out, _ = command("check", "rank=bare")
    assert code == 1
    assert "weight" in out
    plugin("broken", index="super()._index(scored) / 0")
    code, out, err = command("check", "rank=broken", "selector=argmax", "selector.x=1")
    assert (code, err) == (1, "")
    assert out.index("rank broken is ") < out.index("  ✗ ") < out.index("selector argmax (x=1")
    assert "selector 'argmax' has no parameter 'x'; it takes none" in out
