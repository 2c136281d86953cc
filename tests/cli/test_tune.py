"""Tuning: studies that are played, interrupted, given again, and that cannot be played."""

import re
import shlex
import sys
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

import fairbandit
from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.runs import Callback, tuning
from fairbandit.runs import summary as summaries

SEARCH = "search={policy.estimator.regularization: {low: 1e-3, high: 10, log: true}}"
PLAIN = ["tune", "rounds=30", "replicas=2", "folder=study"]
WORDS = [*PLAIN, SEARCH]


def trials(folder: Path) -> list[FrozenTrial]:
    """The trials of a study that have ended, as its viewers see them."""
    stored = optuna.load_study(study_name=None, storage=f"sqlite:///{folder / 'study.db'}")
    return [one for one in stored.trials if one.state.is_finished()]


def outcomes(folder: Path) -> list[tuple[Any, ...]]:
    """The state, values and reports of each trial that has ended."""
    return [(one.state, one.params, one.intermediate_values, one.values) for one in trials(folder)]


def test_a_study_goes_on_as_python_plays_it_and_its_best_trial_plays_again(command, tmp_path):
    space = "search={policy.estimator.regularization: {low: 1e-3, high: 10}, policy/split: [full]}"
    words = [*PLAIN, space]
    assert command(*words, "trials=1")[0] == 0
    code, out, err = command(*words, "trials=3")
    assert (code, err) == (0, "")
    assert re.findall(r"^trial (\d)  regularization=", out, re.MULTILINE) == ["1", "2"]
    assert "Best of 3 complete trials" in out
    config = {"policy": {"name": "fair_greedy", "split": "full"}, "rounds": 30, "replicas": 2}
    low: dict[str, Any] = {"policy.estimator.regularization": {"low": 1e-3, "high": 10}}
    study = fairbandit.tune(
        config, low | {"policy.split.name": ["full"]}, tmp_path / "python", trials=3
    )
    found = [one.values for one in trials(tmp_path / "study")]
    assert found == [one.values for one in trials(tmp_path / "python")]
    assert [study.best_value] == min(found)
    ((number, again),) = re.findall(r"trial (\d) with fresh replicas  fairbandit (.*)", out)
    assert again.endswith(" seed=1")
    assert command(*shlex.split(again)[:-1], "seed=0", "hydra.run.dir=again")[0] == 0
    assert summaries.read(tmp_path / "again")["metrics"]["fair_regret"]["mean"] == study.best_value
    assert found[int(number)] == [study.best_value]


class Seen(Callback):
    """Notes the regularization of each run that ends."""

    ended: ClassVar[list[float]] = []

    def on_start(self, settings):
        self.regularization = settings["policy.estimator.regularization"]

    def on_end(self, run):
        self.ended.append(self.regularization)


def test_callbacks_take_part_in_trials_that_none_stops_early(command, tmp_path, monkeypatch):
    monkeypatch.setattr(Seen, "ended", [])
    words = [*WORDS, "trials=2", f"callbacks=[{{_target_: {Seen.__module__}.Seen}}]"]
    code, _, err = command(*words)
    assert code == 1
    assert "callbacks need prune=false" in err
    assert command(*words, "prune=false")[0] == 0
    given = [*(one.params["policy.estimator.regularization"] for one in trials(tmp_path / "study"))]
    assert Seen.ended == given
    search = {"policy.estimator.regularization": [0.5]}
    options: Any = {"trials": 1, "prune": False, "callbacks": [Seen()]}
    config = {"policy": "fair_greedy", "rounds": 30, "replicas": 2}
    fairbandit.tune(config, search, tmp_path / "python", **options)
    assert Seen.ended == [*given, 0.5]


@pytest.mark.all
def test_an_interrupted_trial_is_played_again(command, tmp_path, monkeypatch):
    words = [*WORDS, "rounds=600", "trials=3"]
    assert command(*words, "folder=whole")[0] == 0
    execute = vars(tuning)["execute"]

    def interrupted(config, folder, callbacks):
        class Stop(Callback):
            def on_rounds(self, t, means):
                if t > 256 and len(list(folder.parent.iterdir())) == 2:
                    raise KeyboardInterrupt

        return execute(config, folder, callbacks=[*callbacks, Stop()])

    with monkeypatch.context() as patch:
        patch.setattr(tuning, "execute", interrupted)
        assert command(*words)[0] == 130
    assert command(*words)[0] == 0
    assert outcomes(tmp_path / "study") == outcomes(tmp_path / "whole")


@pytest.mark.all
def test_trials_worse_than_the_median_are_stopped_unless_prune_is_false(command, tmp_path):
    assert command(*WORDS, "rounds=600", "trials=9")[0] == 0
    assert command(*WORDS, "rounds=600", "trials=12", "prune=false")[0] == 0
    found = trials(tmp_path / "study")
    for number, one in enumerate(found):
        reports = one.intermediate_values
        assert reports.keys() in ({256}, {256, 512})
        for t, value in reports.items():
            before = [other.intermediate_values.get(t) for other in found[:number]]
            others = [report for report in before if report is not None]
            worse = len(others) >= 5 and value > median(others)
            stopped = one.state == TrialState.PRUNED and t == max(reports)
            assert stopped == (worse and number < 9)
    complete = sum(one.state == TrialState.COMPLETE for one in found)
    assert 3 < complete < 12
    assert len(list(tmp_path.glob("study/trials/*/summary.json"))) == complete


def test_several_objectives_of_which_more_of_one_is_better(command, tmp_path, monkeypatch):
    monkeypatch.setattr(registry.lookup("metric", "standard_regret"), "lower_is_better", False)
    space = "search={policy: [greedy, uniform], environment.noise: {low: 0.1, high: 1}}"
    words = [*PLAIN, space, "objective=[fair_regret,standard_regret]", "trials=4"]
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    points = {one.number: tuple(one.values) for one in trials(tmp_path / "study")}
    best = {
        one
        for one in points.values()
        if not any(a <= one[0] and b >= one[1] and (a, b) != one for a, b in points.values())
    }
    again = [points[int(number)] for number in re.findall(r"trial (\d) with", out)]
    assert sorted(again) == sorted(best)


def test_a_trial_that_fails_ends_the_study_only_if_none_is_complete(command, tmp_path, monkeypatch):
    execute, left = vars(tuning)["execute"], [False, True, False, True, True]

    def fails(*given, **options):
        if left.pop(0):
            return execute(*given, **options)
        raise FairbanditError("the disk is on fire")

    monkeypatch.setattr(tuning, "execute", fails)
    assert command(*WORDS, "trials=4")[2] == "fairbandit: error: the disk is on fire\n"
    assert not outcomes(tmp_path / "study")
    code, out, err = command(*WORDS, "trials=4")
    assert (code, err) == (0, "")
    assert "failed: the disk is on fire" in out
    assert "Best of 3 complete trials, 4 in all" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["serch=3"], "fairbandit tune: expected search=…"),
        (["search=3"], "search: Expected `object`, got `int`, 3"),
        (["search={policy.split: 3}"], "search must map keys to lists of choices"),
        (["search={policy.split: {low: 3, high: 2}}"], "`low <= high` must hold"),
        (["search={policy.estimator.nope: [1]}"], "has no parameter 'nope'"),
        (
            [SEARCH, "objective=nope"],
            "unknown objective 'nope'; expected one of standard_regret, fair_regret",
        ),
    ],
)
def test_what_cannot_be_searched(command, tmp_path, words, message):
    code, _, err = command(*PLAIN, *words)
    assert code == 1
    assert message in err
    assert not list(tmp_path.iterdir())


def test_another_study(command, tmp_path):
    assert command(*WORDS, "trials=1")[0] == 0
    assert "rounds: 30 there, 31 here" in command(*WORDS, "rounds=31")[2]
    other = command(*PLAIN, "search={policy/split: [full]}")[2]
    assert 'policy.split.name: "halves" there' in other
    assert command(*WORDS, "rounds=31", "trials=1", "resume=false")[0] == 0
    assert len(trials(tmp_path / "study-2")) == 1


def test_optuna_is_not_installed(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install 'fairbandit[optuna]'" in command(*WORDS)[2]
