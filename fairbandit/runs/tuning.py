"""Searches for good values of a run's keys with Optuna, whose storage is the study."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.registry import lookup
from fairbandit.runs.execute import execute
from fairbandit.runs.folder import claim, folder_name
from fairbandit.runs.naming import shown
from fairbandit.runs.play import Config, plain
from fairbandit.runs.saved import Callback
from fairbandit.runs.settings import checked
from fairbandit.runs.summary import differences, identity
from fairbandit.streams import CHUNK_ROUNDS

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

DATABASE = "study.db"
"""The file of Optuna's storage in the folder of a study."""

_REPORTS = 20  # approximate number of reports of a trial
_STARTUP = 5  # number of trials needed for a comparison
_WARM_UP = 0.25  # share of the rounds before a trial may be stopped


def tune(
    config: Config | Callable[[Mapping[str, Any]], Mapping[str, Any]],
    search: Mapping[str, Any],
    folder: str | Path,
    *,
    objective: str | Sequence[str] = "fair_regret",
    trials: int = 50,
    prune: bool = True,
    after: Callable[[FrozenTrial], None] | None = None,
) -> Study:
    """Plays the remaining trials of a study, in which Optuna chooses values by earlier trials.

    All trials have the seed of the config, and so meet the same pools and noise. A second call
    continues the study, and plays an interrupted trial again.

    Args:
        config: as for `fairbandit.run`; or a function that returns the config of some values.
        search: for each key a list of choices, or `{"low": 0.1, "high": 10}`, optionally with
            `log` or `step`; whole numbers give whole numbers.
        folder: where the study and the runs of its trials are kept.
        objective: a metric, whose mean over replicas after the last round is optimised, or several.
        trials: the number of trials that the study has in the end.
        prune: stops a trial that is worse than the median of the others at the same round.
        after: called with each trial that has ended.

    Returns:
        The study, an `optuna.Study`.

    Raises:
        FairbanditError: Optuna is not installed, the study is of another config, or a trial fails
            before another one is complete.
    """
    optuna = _optuna()
    if not isinstance(search, Mapping) or not search:
        raise FairbanditError(
            "tune needs the keys that it varies, as in 'search={policy.estimator.exploration: "
            f"{{low: 0.001, high: 1, log: true}}}}'; got {search!r}"
        )
    spaces = {key: _distribution(space) for key, space in search.items()}
    compose = config if callable(config) else lambda own: plain({**plain(config), **own})
    first = {
        k: space[0] if isinstance(space, list) else space["low"] for k, space in search.items()
    }
    known = identity(checked(compose(first)))
    metrics, rounds = known["config"]["metrics"], known["config"]["rounds"]
    columns = [objective] if isinstance(objective, str) else [*objective]
    if not columns or any(column not in metrics for column in columns):
        raise FairbanditError(
            "objective must be a metric that the run records, or a list of them, got "
            f"{objective!r}; the run records {', '.join(metrics)}, and metrics={{COLUMN: NAME}} "
            "adds others"
        )
    lower = [lookup("metric", metrics[column]["name"]).lower_is_better for column in columns]
    asked, place = {**known, "search": search, "objective": columns}, Path(folder).absolute()
    with claim(place, f"another process plays the study in {folder}"):
        study = optuna.create_study(
            study_name="fairbandit",
            storage=f"sqlite:///{place / DATABASE}",
            directions=["minimize" if low else "maximize" for low in lower],
            load_if_exists=True,
        )
        if different := differences(study.user_attrs.get("asked", asked), asked):
            raise FairbanditError(
                f"the trials in {folder} cannot be compared with those asked for: "
                f"{'; '.join(different)}. Another folder begins another study"
            )
        study.set_user_attr("asked", asked)
        while len(ended := _ended(study)) < trials:
            seeds = np.random.SeedSequence([known["config"]["seed"], len(ended)])
            study.sampler = optuna.samplers.TPESampler(seed=int(seeds.generate_state(1)[0]))
            trial = study.ask(spaces)  # after an interruption, the same values as before it
            values = meant(trial.params, search)
            run = place / "trials" / folder_name(f"{key}={shown(v)}" for key, v in values.items())
            reporter = _Reporter(study, trial, columns[0], lower[0], rounds, prune)
            callbacks = [reporter] if len(columns) == 1 else []  # Optuna prunes by one objective
            _play(study, trial, compose(values), run, columns, callbacks)
            if after is not None:
                after(study.get_trials(deepcopy=False)[trial.number])
    return study


def _ended(study: Study) -> list[FrozenTrial]:
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]


def _play(
    study: Study,
    trial: Trial,
    config: Any,
    folder: Path,
    columns: Sequence[str],
    callbacks: Sequence[Callback],
) -> None:
    """Plays a trial, and tells the study its outcome.

    An error before the first complete trial is raised, since every trial may have it.
    """
    import optuna

    try:
        metrics = execute(config, folder, callbacks=callbacks)["metrics"]
        values = [metrics[column]["mean"] for column in columns]
        if None in values:
            raise FairbanditError(f"{' or '.join(columns)} of the run is not finite")
        study.tell(trial, values)
    except optuna.TrialPruned:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    except Exception as error:
        complete = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
        if isinstance(error, OSError) or not complete:
            raise
        trial.set_user_attr("error", str(error) or type(error).__name__)
        study.tell(trial, state=optuna.trial.TrialState.FAIL)


@dataclass
class _Reporter(Callback):
    """Reports a metric to Optuna, and stops a trial that is worse than the median.

    Optuna's own median pruner compares the best report of each trial. Cumulative regret is always
    best in the first report, so that pruner would never stop a trial.
    """

    study: Study
    trial: Trial
    column: str
    lower: bool
    rounds: int
    prune: bool

    def on_rounds(self, t: int, means: Mapping[str, float]) -> None:
        import optuna

        value = means[self.column]
        every = max(1, self.rounds // (_REPORTS * CHUNK_ROUNDS)) * CHUNK_ROUNDS
        if t % every or t >= self.rounds or not isfinite(value):
            return
        self.trial.report(value, t)
        reports = (one.intermediate_values.get(t) for one in _ended(self.study))
        others = [report for report in reports if report is not None]
        if self.prune and len(others) >= _STARTUP and t >= _WARM_UP * self.rounds:
            middle = median(others)
            if value > middle if self.lower else value < middle:
                raise optuna.TrialPruned


def meant(values: Mapping[str, Any], search: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a trial, with the lists that are stored as JSON."""
    return {
        key: next((one for one in search[key] if _stored(one) == value), value)
        if isinstance(search[key], list)
        else value
        for key, value in values.items()
    }


def _stored(choice: Any) -> Any:
    return json.dumps(choice) if isinstance(choice, (list, dict)) else choice


def _distribution(space: Any) -> Any:
    from optuna import distributions as d

    try:
        with warnings.catch_warnings(action="error"):  # Optuna warns of invalid choices and steps
            if isinstance(space, list):
                return d.CategoricalDistribution([_stored(choice) for choice in space])
            whole = all(type(value) is int for key, value in space.items() if key != "log")
            return (d.IntDistribution if whole else d.FloatDistribution)(**space)
    except (AttributeError, TypeError, ValueError, UserWarning) as error:
        raise FairbanditError(
            "search must map keys to lists of choices, or to {low: 0.1, high: 10}, optionally with "
            f"log: true or step: 0.1; got {space!r} ({error})"
        ) from None


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise FairbanditError("tuning needs Optuna; pip install 'fairbandit[optuna]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
