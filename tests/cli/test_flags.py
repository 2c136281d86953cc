"""Flags in full: nothing that Hydra would complete, and nothing that loads a pickle."""

import pickle
from pathlib import Path

import pytest

from fairbandit.cli.parsers import spelt_out
from fairbandit.errors import FairbanditError

RERUN = "--experimental-rerun"


class Touch:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("length", range(len("--e"), len(RERUN) + 1))
def test_no_spelling_of_it_runs_a_pickle(command, tmp_path, length):
    (tmp_path / "job.pickle").write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    flag = RERUN[:length]
    words = [f"{flag}=job.pickle"] if length % 2 else [flag, "job.pickle"]
    for given in (words, ["rounds=3", *words], [*words, "rounds=3"], ["-m", "seed=0,1", *words]):
        code, out, err = command(*given)
        assert code == 1
        assert err.startswith("fairbandit: error: ")
        assert flag in err
        assert "Traceback" not in out + err
    assert not (tmp_path / "ran").exists()


def test_a_space_in_a_word_hides_no_flag(command, tmp_path):
    (tmp_path / "job pickle").write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    assert command("--exp=job pickle")[0] == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "spelt"),
    [
        (["seed=1"], ["--", "seed=1"]),
        (["-m", "seed=0,1", "rounds=3"], ["--multirun", "--", "seed=0,1", "rounds=3"]),
        (["rounds=3", "-m", "seed=0,1"], ["--multirun", "--", "rounds=3", "seed=0,1"]),
        (["-c", "job", "-p", "policy"], ["--cfg=job", "--package=policy", "--"]),
        (["--info"], ["--info=all", "--"]),
        (["--", "-x"], ["--", "-x"]),
    ],
)
def test_words_with_flags_in_full(words, spelt):
    assert spelt_out(words) == spelt


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--multi", "seed=0,1"], "unrecognized arguments: --multi"),
        (["--cfg"], "expected one argument"),
        (["--cfg", "nope"], "invalid choice: 'nope'"),
        (["-x"], "unrecognized arguments: -x"),
        ([RERUN, "x"], "loads a pickle"),
        (["-cn", "policy/oful"], "--config-name is refused"),
        (["--config-path=pkg://os"], "--config-path is refused"),
    ],
)
def test_wrong_flags(words, message):
    with pytest.raises(FairbanditError, match=message):
        spelt_out(words)


def test_a_flag_may_stand_between_words(command):
    assert command("seed=0", "--cfg", "job", "rounds=3")[0] == 0
