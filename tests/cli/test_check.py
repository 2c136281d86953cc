from fairbandit import conformance


def test_a_good_part(command):
    code, out, err = command("check", "rank=empirical_cdf")
    assert (code, err) == (0, "")
    first, *lines, group, count = out.splitlines()
    assert first.startswith("rank empirical_cdf is EmpiricalCdf (")
    assert "paper.py:" in first
    labels = [check.__name__.replace("_", " ") for check in conformance.checks("rank")]
    assert [line.lower() for line in lines] == [f"  ✓ {label}" for label in labels]
    assert group == "  reads the group at the decision: yes"
    assert count == f"  {len(labels)} of {len(labels)} checks passed"


def test_policies_and_parts_that_read_no_group(command):
    code, out, _ = command("check", "policy=uniform", "policy.refresh=1.2", "split=full")
    first, second = out.split("split full")
    assert code == 0
    assert "policy uniform (refresh=1.2) is " in first
    assert "  reads the group at the decision: no" in first
    assert "reads the group" not in second


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
