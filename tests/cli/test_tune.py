"""Tuning: studies that are played, interrupted, given again, and that cannot be played."""

import json
import re
import shlex
import sqlite3
import sys
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from fairbandit import registry
from fairbandit.cli import study, tune
from fairbandit.errors import FairbanditError
from fairbandit.run import summary as summaries
from tests.killing import start, until

SEARCH = "search={policy.estimator.regularization: {low: 1e-3, high: 10, log: true}}"
WORDS = ["tune", "rounds=30", "replicas=2", SEARCH]


def trials(folder: Path) -> list[FrozenTrial]:
    """The trials of a study that were not interrupted, as its viewers see them."""
    stored = optuna.load_study(study_name=None, storage=f"sqlite:///{folder / study.DATABASE}")
    ended = (TrialState.COMPLETE, TrialState.PRUNED)
    return [one for one in stored.trials if one.state in ended or "error" in one.user_attrs]


def told(folder: Path) -> list[tuple[Any, ...]]:
    """What the trials of a study tried, and what came of it."""
    return [(one.user_attrs["index"], one.state, one.params, one.values) for one in trials(folder)]


def finished(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("trials/*/summary.json")}


def test_a_study_goes_on_where_it_ended_and_its_best_trial_plays_again(command, tmp_path):
    space = "search={policy.estimator.regularization: {low: 1e-3, high: 10}, policy/split: [full]}"
    words = [*WORDS[:-1], space]
    assert command(*words, "trials=2", "folder=study")[0] == 0
    code, out, err = command(*words, "trials=4", "folder=study")
    assert (code, err) == (0, "")
    assert len(re.findall(r"^trial \d  regularization=", out, re.MULTILINE)) == 2
    assert "Best of 4 complete trials" in out
    assert command(*words, "trials=4", "folder=whole")[0] == 0
    assert told(tmp_path / "study") == told(tmp_path / "whole")
    assert finished(tmp_path / "study") == {"0", "1", "2", "3"}
    drawn = {path.stem for path in (tmp_path / "study" / "figures").iterdir()}
    assert drawn == {"history", "slice", "importances"}
    (index, again) = re.findall(r"trial (\d) with fresh replicas  fairbandit (.*)", out)[0]
    assert again.endswith(" seed=1")
    assert command(*shlex.split(again)[:-1], "seed=0", "hydra.run.dir=again")[0] == 0
    best = min(trials(tmp_path / "study"), key=lambda one: one.values)
    assert best.user_attrs["index"] == int(index)
    assert summaries.read(tmp_path / "again")["metrics"]["fair_regret"]["mean"] == best.value


def test_an_interrupted_trial_is_played_on(command, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRBANDIT_CHECKPOINT_SECONDS", "0")
    words = [*WORDS, "rounds=600", "trials=3"]
    assert command(*words, "folder=whole")[0] == 0
    execute = vars(study)["execute"]

    def interrupted(config, folder, **options):
        def watch(t, means):
            if folder.name == "1" and t > 256:
                raise KeyboardInterrupt

        return execute(config, folder, **options | {"watch": watch})

    with monkeypatch.context() as patch:
        patch.setattr(study, "execute", interrupted)
        assert command(*words, "folder=study")[0] == 130
    assert finished(tmp_path / "study") == {"0"}
    began: list[str] = []
    monkeypatch.setattr(
        study, "execute", lambda *given, **options: execute(*given, **options, started=began.append)
    )
    assert command(*words, "folder=study")[0] == 0
    assert began == ["round 257 of 600", ""]
    assert told(tmp_path / "study") == told(tmp_path / "whole")
    assert not list((tmp_path / "study" / "trials").glob("*.lock"))


@pytest.mark.all
@pytest.mark.long
def test_two_processes_play_one_study_and_one_of_them_is_killed(command, tmp_path):
    words = [*WORDS, "rounds=3000", "trials=6", "prune=false", "folder=study"]
    both = [start(words, tmp_path), start(words, tmp_path)]
    until(lambda: len(list((tmp_path / "study" / "trials").glob("?/checkpoint.pt"))) == 2)
    both[0].process.kill()
    both[0].end()
    code, printed = both[1].end()
    assert code == 0, printed
    found = told(tmp_path / "study")
    assert sorted(index for index, *_ in found) == list(range(6))
    assert {state for _, state, *_ in found} == {TrialState.COMPLETE}
    assert len({json.dumps(params) for *_, params, _ in found}) == 6
    assert finished(tmp_path / "study") == set("012345")


def test_trials_worse_than_the_median_are_stopped_unless_prune_is_false(command, tmp_path):
    words = [*WORDS, "rounds=600", "folder=study"]
    assert command(*words, "trials=9")[0] == 0
    assert command(*words, "trials=12", "prune=false")[0] == 0
    before: list[dict[int, float]] = []
    stopped, played_on = set(), set()
    for number, trial in enumerate(trials(tmp_path / "study")):
        reports = trial.intermediate_values
        assert reports.keys() in ({256}, {256, 512})
        others = {t: [one[t] for one in before if t in one] for t in reports}
        worse = [len(others[t]) >= 5 and value > median(others[t]) for t, value in reports.items()]
        if trial.state == TrialState.PRUNED:
            assert worse[-1]
            stopped.add(number)
        elif any(worse):
            played_on.add(number)
        before.append(reports)
    assert stopped
    assert max(stopped) < 9 <= min(played_on)
    assert finished(tmp_path / "study") == {str(n) for n in range(12) if n not in stopped}


def test_several_objectives_of_which_more_of_one_is_better(command, tmp_path, monkeypatch):
    monkeypatch.setattr(registry.lookup("metric", "standard_regret"), "lower_is_better", False)
    space = "search={policy: [greedy, uniform], environment.noise: {low: 0.1, high: 1}}"
    words = [*WORDS[:-1], space, "objective=[fair_regret,standard_regret]", "trials=4"]
    code, out, err = command(*words, "folder=study")
    assert (code, err) == (0, "")
    points = {index: tuple(values) for index, *_, values in told(tmp_path / "study")}
    best = {
        one
        for one in points.values()
        if not any(a <= one[0] and b >= one[1] and (a, b) != one for a, b in points.values())
    }
    assert "Not dominated of 4 complete trials" in out
    again = [points[int(number)] for number in re.findall(r"trial (\d) with", out)]
    assert sorted(again) == sorted(best)
    assert (tmp_path / "study" / "figures" / "front.pdf").exists()


def test_a_trial_that_fails_ends_the_study_only_if_none_is_complete(command, tmp_path, monkeypatch):
    execute, failing = vars(study)["execute"], ["0", "2"]

    def fails(config, folder, **options):
        if folder.name in failing:
            raise FairbanditError("the disk is on fire")
        return execute(config, folder, **options)

    monkeypatch.setattr(study, "execute", fails)
    code, out, err = command(*WORDS, "trials=4", "folder=study")
    assert (code, err) == (1, "fairbandit: error: the disk is on fire\n")
    assert not told(tmp_path / "study")
    failing.remove("0")
    code, out, err = command(*WORDS, "trials=4", "folder=study")
    assert (code, err) == (0, "")
    assert "failed: the disk is on fire" in out
    assert "Best of 3 complete trials, 1 failed" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "search must map keys to their values"),
        (["search={policy.split: {high: 3}}"], "required positional argument: 'low'"),
        (["search={policy.split: {low: 3, high: 2}}"], "`low <= high` must hold"),
        (["search={policy.split: [[1], [2]]}"], "which is of type list"),
        (["search={policy.estimator.nope: [1]}"], "policy.estimator has no key 'nope'"),
        ([SEARCH, "objective=nope"], "it records standard_regret, fair_regret"),
        ([SEARCH, "trials=0"], "trials must be 1, 2, …, got 0"),
        ([SEARCH, "prune=maybe"], "prune must be true or false, got 'maybe'"),
    ],
)
def test_what_cannot_be_searched(command, tmp_path, words, message):
    code, _, err = command("tune", "rounds=30", *words)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_metric_that_needs_a_truth_where_there_is_none():
    environment = SimpleNamespace(truth=None, part_name="logged")
    config = study.composed(["+metrics={welfare: welfare}"])
    with pytest.raises(
        FairbanditError, match=r"fair_regret cannot be known.*'logged' has no truth"
    ):
        tune._objectives("fair_regret", config, environment)


def test_a_study_of_something_else(command, tmp_path):
    assert command(*WORDS, "trials=1", "folder=study")[0] == 0
    for change, message in (
        ("rounds=31", "rounds: 30 there, 31 here"),
        ("search={policy.estimator.regularization: [1, 2]}", "because of search"),
        ("objective=standard_regret", "because of objective"),
    ):
        words = [word for word in WORDS if not word.startswith(change.split("=")[0])]
        code, _, err = command(*words, change, "trials=2", "folder=study")
        assert code == 1
        assert message in err
    assert finished(tmp_path / "study") == {"0"}
    assert command(*WORDS, "rounds=31", "trials=1", "folder=study", "resume=false")[0] == 0
    assert finished(tmp_path / "study-2") == {"0"}


def test_a_damaged_study_is_one_message(command, tmp_path):
    assert command(*WORDS, "trials=1", "folder=study")[0] == 0
    database = tmp_path / "study" / study.DATABASE
    whole = database.read_bytes()
    for damage in (
        "UPDATE trial_user_attributes SET value_json = '\"../../../x\"'",
        "UPDATE trials SET state = 'NONSENSE'",
        "UPDATE alembic_version SET version_num = 'none'",
        "",
    ):
        database.write_bytes(whole if damage else whole[:5000])
        with sqlite3.connect(database) as base:
            base.executescript(damage)
        base.close()
        code, _, err = command(*WORDS, "trials=2", "folder=study")
        assert code == 1
        assert "study.db of the study cannot be read or written" in err
        assert err.count("\n") == 1
    assert finished(tmp_path / "study") == {"0"}


def test_optuna_is_not_installed(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna.distributions", None)
    monkeypatch.delitem(sys.modules, "fairbandit.cli.tune")
    code, _, err = command(*WORDS)
    assert code == 1
    assert "pip install 'fairbandit[optuna]' installs it" in err
