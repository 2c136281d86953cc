"""Searches for good values of a run's keys with Optuna, whose storage is the study."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.errors import FairbanditError, check_known
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

_REPORTS = 20  # approximate number of reports of a trial
_STARTUP = 5  # number of trials needed for a comparison
_WARM_UP = 0.25  # share of the rounds before a trial may be stopped


def tune(
    config: Config,
    search: Mapping[str, Any],
    folder: str | Path,
    *,
    objective: str | Sequence[str] = "fair_regret",
    trials: int = 50,
    prune: bool = True,
    callbacks: Sequence[Callback] = (),
    after: Callable[[FrozenTrial], None] | None = None,
) -> Study:
    """Plays the remaining trials of a study, in which Optuna chooses values by earlier trials.

    All trials have the seed of the config, and so meet the same pools and noise. A second call
    continues the study, and plays an interrupted trial again.

    Args:
        config: as for `fairbandit.run`.
        search: for each key a list of numbers, texts, truth values or None; or
            `{"low": 0.1, "high": 10}`, optionally with `log` or `step`; whole numbers give whole
            numbers.
        folder: where the study and the runs of its trials are kept.
        objective: a metric, whose mean over replicas after the last round is optimised, or several.
        trials: the number of trials that the study has in the end.
        prune: stops a trial that is worse than the median of the others at the same round.
        callbacks: objects that take part in each trial; they need prune=False.
        after: called with each trial that has ended.

    Returns:
        The study, an `optuna.Study`.

    Raises:
        FairbanditError: Optuna is not installed, the study is of another config, or a trial fails
            before any trial is complete.
    """
    if callbacks and prune:
        raise FairbanditError(
            "callbacks need prune=false: a trial that is stopped early would never call `on_end`"
        )
    try:
        import optuna
    except ImportError as error:
        raise FairbanditError("tuning needs Optuna; pip install 'fairbandit[optuna]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spaces = {key: _distribution(space) for key, space in search.items()}
    fixed = plain(config)
    first_values = {key: s[0] if isinstance(s, list) else s["low"] for key, s in search.items()}
    determined = identity(checked(plain({**fixed, **first_values})))
    metrics = determined["config"]["metrics"]
    columns = [objective] if isinstance(objective, str) else [*objective]
    check_known("objective", columns, metrics)
    lower = [lookup("metric", metrics[column]["name"]).lower_is_better for column in columns]
    asked, place = {**determined, "search": search, "objective": columns}, Path(folder).absolute()
    with claim(place, f"another process plays the study in {folder}"):
        study = optuna.create_study(
            study_name="fairbandit",
            storage=f"sqlite:///{place / 'study.db'}",
            directions=["minimize" if low else "maximize" for low in lower],
            load_if_exists=True,
        )
        if different := differences(study.user_attrs.get("asked", asked), asked):
            raise FairbanditError(
                f"the trials in {folder} cannot be compared with those asked for: "
                f"{'; '.join(different)}. Another folder begins another study"
            )
        study.set_user_attr("asked", asked)
        while (number := len(_ended(study))) < trials:
            seeds = np.random.SeedSequence([determined["config"]["seed"], number])
            study.sampler = optuna.samplers.TPESampler(seed=int(seeds.generate_state(1)[0]))
            trial = study.ask(spaces)  # after an interruption, the same values as before it
            values = trial.params
            run = place / "trials" / folder_name(f"{key}={shown(v)}" for key, v in values.items())
            rounds = determined["config"]["rounds"]
            played = _Trial(study, trial, columns, rounds, prune, callbacks)
            played.play(plain({**fixed, **values}), run)
            if after is not None:
                after(study.get_trials(deepcopy=False)[trial.number])
    return study


def _ended(study: Study) -> list[FrozenTrial]:
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]


@dataclass
class _Trial(Callback):
    """Plays a trial, which reports to Optuna and stops if it is worse than the median.

    Optuna's own median pruner compares the best report of each trial. Cumulative regret is always
    best in the first report, so that pruner would never stop a trial.
    """

    study: Study
    trial: Trial
    columns: Sequence[str]
    rounds: int
    prune: bool
    others: Sequence[Callback]

    def play(self, config: Any, folder: Path) -> None:
        """Plays the trial. An error before the first complete trial is raised: all may have it."""
        from optuna import TrialPruned
        from optuna.trial import TrialState

        own = [self] if len(self.columns) == 1 else []  # Optuna prunes by one objective
        callbacks = [*own, *self.others]
        try:
            metrics = execute(config, folder, callbacks=callbacks)["metrics"]
            values = [metrics[column]["mean"] for column in self.columns]
            if None in values:
                raise FairbanditError(f"{' or '.join(self.columns)} of the run is not finite")
            self.study.tell(self.trial, values)
        except TrialPruned:
            self.study.tell(self.trial, state=TrialState.PRUNED)
        except Exception as error:
            complete = self.study.get_trials(states=[TrialState.COMPLETE])
            if isinstance(error, OSError) or not complete:
                raise
            self.trial.set_user_attr("error", str(error) or type(error).__name__)
            self.study.tell(self.trial, state=TrialState.FAIL)

    def on_rounds(self, t: int, means: Mapping[str, float]) -> None:
        """Reports the objective, and compares it with the others' reports at the same round."""
        from optuna import TrialPruned

        value = means[self.columns[0]]
        every = max(1, self.rounds // (_REPORTS * CHUNK_ROUNDS)) * CHUNK_ROUNDS
        if t % every or t >= self.rounds or not isfinite(value):
            return
        self.trial.report(value, t)
        reports = [ended.intermediate_values.get(t) for ended in _ended(self.study)]
        others = [report for report in reports if report is not None]
        if self.prune and len(others) >= _STARTUP and t >= _WARM_UP * self.rounds:
            lower = self.study.direction.name == "MINIMIZE"
            if value > median(others) if lower else value < median(others):
                raise TrialPruned


def _distribution(space: Any) -> Any:
    from optuna import distributions as d

    try:
        with warnings.catch_warnings(action="error"):  # Optuna warns of invalid choices and steps
            if isinstance(space, list):
                return d.CategoricalDistribution(space)
            integers = all(type(value) is int for key, value in space.items() if key != "log")
            return (d.IntDistribution if integers else d.FloatDistribution)(**space)
    except (AttributeError, TypeError, ValueError, UserWarning) as error:
        raise FairbanditError(
            "search must map keys to lists of choices, or to {low: 0.1, high: 10}, optionally with "
            f"log: true or step: 0.1; got {space!r} ({error})"
        ) from None
