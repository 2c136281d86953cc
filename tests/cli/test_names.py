import pytest

from fairbandit.cli.main import main
from fairbandit.cli.names import folder_name, job_name
from fairbandit.cli.tools import names_tool


def test_job_names_are_short_plain_and_apart():
    long = job_name([f"environment.theta=[{','.join('1234567890')}]"] * 5)
    assert len(long) <= 80
    assert set(long) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.+")
    assert job_name(["policy.name=a/b"]) != job_name(["policy.name=a b"])
    assert job_name(["policy.estimator.noise=1"]) != job_name(["environment.noise=1"])
    assert job_name(["theta=1+2"]) != job_name(["theta=1,2"])
    assert job_name(["resume=false", "++threads=2", "seed=1"]) == job_name(["seed=1"])
    assert job_name([]) == job_name(["resume=false"]) == "default"
    assert "/" not in folder_name("../../etc")
    assert not folder_name("../../etc").startswith(".")


@pytest.mark.parametrize("word", ["a=1", "-m", "--help", "/x", "+x=1", "~x", "~policy"])
def test_what_is_no_tool(word):
    assert not names_tool(word)


def test_a_tool_gets_the_words_after_its_name(monkeypatch, capsys):
    got: list[str] = []
    monkeypatch.setattr("fairbandit.cli.collect.collect", got.extend)
    main(["collect", "--help", "x=1"])
    assert got == ["--help", "x=1"]
    main(["--help"])
    assert "gathers the summaries of many runs" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"unknown tool 'collekt'; the tools are collect"):
        main(["collekt"])
