"""Hydra's shell completion, which the command passes through."""

import pytest

from fairbandit.cli.main import main


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("policy=fa", ["policy=fair_greedy", "policy=fair_greedy_oracle_cdf"]),
        ("policy/rank=re", ["policy/rank=recent_cdf"]),
        ("policy.estimator.reg", ["policy.estimator.regularization="]),
        ("environment=si", ["environment=simulation"]),
    ],
)
def test_it_completes_keys_and_options(line, expected, monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", f"fairbandit {line}")
    main(["-sc", "query=bash"])
    found = capsys.readouterr().out.split()
    assert set(expected) <= set(found)
    assert all(word.startswith(line) for word in found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_installs_in_every_shell(shell, capsys):
    main(["-sc", f"install={shell}"])
    assert "-sc query=" in capsys.readouterr().out
