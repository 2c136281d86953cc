import pytest

from fairbandit import conformance
from tests import support

PART = '''
from fairbandit import register
from fairbandit.parts import EmpiricalCdf

@register("rank", "{name}")
class Mine(EmpiricalCdf):
    """Mine."""

    def __init__(self, *, window: {type}{default}) -> None:
        self.window = window
'''


@pytest.fixture
def mine(tmp_path, monkeypatch, clean):
    """A plugin of the user's own."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(folder))

    def write(name, type="int", default=" = 3"):
        text = PART.format(name=name, type=type, default=default)
        (folder / f"plugin_{name}.py").write_text(text, encoding="utf-8")
        return folder / f"plugin_{name}.py"

    return write


def test_a_good_part(command):
    code, out, err = command("check", "rank=identity")
    assert (code, err) == (0, "")
    first, *lines, cost, count = out.splitlines()
    assert first.startswith("rank identity (")
    assert "ranks.py:" in first
    labels = [(check.__doc__ or "").strip().rstrip(".") for check in conformance.checks("rank")]
    assert lines == [f"  ✓ {label}" for label in labels]
    assert cost.startswith("  plays in 0.")
    assert "ms a round of 3 replicas (empirical_cdf: 0." in cost
    assert cost.endswith("; under split full: in blocks of rounds")
    assert count == f"  {len(labels)} of {len(labels)} checks passed"


def test_several_parts_of_any_kind(command):
    code, out, _ = command("check", "selector=argmax", "environment=simulation")
    assert code == 0
    assert out.index("selector argmax (") < out.index("environment simulation (")


def test_a_plugin_with_hyperparameters(command, mine):
    file = mine("tuned")
    code, out, err = command("check", "rank=tuned", "rank.window=7")
    assert (code, err) == (0, "")
    assert out.startswith(f"rank tuned (window=7) ({file}:5)\n")


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


def test_a_hyperparameter_without_a_default(command, mine):
    mine("bare", default="")
    code, out, _ = command("check", "rank=bare")
    assert code == 1
    assert "constructor arguments without a default: window" in out
    assert command("check", "rank=bare", "rank.window=2")[0] == 0


@pytest.mark.usefixtures("clean")
def test_a_part_that_fails(command, monkeypatch):
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(support.REPOSITORY / "tests/plugins/broken"))
    code, out, err = command("check", "rank=broken_nan")
    assert (code, err) == (1, "")
    assert "  ✗ " in out
