"""A study: trials that Optuna chooses, played as ordinary runs in the study's folder.

The study is kept in SQLite, so that it can be continued, and several processes may play its trials.
Each trial is drawn by a sampler of its own, seeded by the study's seed and the trial's index, so
that a study that was interrupted goes on with the values that it would have tried anyway.
"""

from __future__ import annotations

import json
import shlex
import sqlite3
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import optuna
from filelock import BaseFileLock, FileLock, Timeout
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from optuna.distributions import distribution_to_json
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from fairbandit.building import build_policy, conf_folder
from fairbandit.cli.configs import plain_value
from fairbandit.cli.messages import in_a_line, one_message, short
from fairbandit.cli.parsers import quoted
from fairbandit.cli.study_figures import draw_study
from fairbandit.errors import FairbanditError
from fairbandit.run.execute import execute
from fairbandit.run.folder import StorageError, claim
from fairbandit.run.identity import finished, identity
from fairbandit.run.settings import Settings, settings
from fairbandit.run.table import console, make_table, named
from fairbandit.streams import GRID

DATABASE = "study.db"
"""The file of a study's folder that keeps the study."""

FIGURES = "figures"
"""The subfolder of a study's figures."""

_INDEX, _ERROR = "index", "error"  # attributes of trials
_REPORTS = 20  # about how often a trial reports to its study
_STARTUP = 5  # trials before others are compared with them
_WARM_UP = 0.25  # the share of the rounds before a trial may be stopped
_CONFIG = (*(field.name for field in fields(Settings)), "policy", "environment")


def composed(words: Sequence[str]) -> dict[str, Any]:
    """Returns the config of a run as plain data, composed as for the command line.

    Args:
        words: overrides.

    Raises:
        FairbanditError: words that Hydra refuses.
    """
    try:
        with initialize_config_dir(str(conf_folder()), version_base="1.3"):
            config = compose("config", overrides=list(map(quoted, words)))
    except (HydraException, OmegaConfBaseException) as error:
        raise FairbanditError(one_message(error)) from None
    return {key: plain_value(config, key) for key in _CONFIG}


def overrides(values: Mapping[str, Any]) -> list[str]:
    """Returns the words that set values; texts are quoted where Hydra's grammar needs it.

    >>> overrides({"policy.split": "full", "seed": 1, "environment.path": "a,b.csv"})
    ['policy.split=full', 'seed=1', 'environment.path="a,b.csv"']
    """
    plain = [isinstance(value, str) and value.isidentifier() for value in values.values()]
    return [
        f"{key}={value if bare else json.dumps(value, ensure_ascii=False)}"
        for (key, value), bare in zip(values.items(), plain, strict=True)
    ]


@contextmanager
def _readable() -> Iterator[None]:
    """Turns errors of reading and writing the database into one message."""
    try:
        yield
    except FairbanditError:
        raise
    except (
        *(SQLAlchemyError, sqlite3.Error, optuna.exceptions.StorageInternalError),
        *(LookupError, TypeError, ValueError, AttributeError, RuntimeError),  # of what is damaged
    ) as error:
        raise FairbanditError(
            f"{DATABASE} of the study cannot be read or written: "
            f"{in_a_line(error.__cause__ or error)}"
        ) from error


class Study:
    """A study in a folder.

    Args:
        folder: where it is kept.
        words: the overrides of every run.
        search: the distribution of each key that varies.
        objectives: whether lower is better, by the column of the metric.
        seed: of the sampler and of the runs.
        rounds: T.
        prune: whether trials are stopped early; those with several objectives never are.
    """

    def __init__(
        self,
        folder: Path,
        words: Sequence[str],
        search: Mapping[str, Any],
        objectives: Mapping[str, bool],
        *,
        seed: int,
        rounds: int,
        prune: bool,
    ) -> None:
        self.folder, self.words, self.search, self.objectives = folder, words, search, objectives
        self.seed, self.rounds, self.prune = seed, rounds, prune
        console().print(named("study", short(folder)), soft_wrap=True)

    def play(self, trials: int) -> None:
        """Plays trials until there are so many, and shows the best.

        Raises:
            FairbanditError: the folder holds another study, or a damaged one; or a trial failed
                before any was complete.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._open()
            while (begun := self._begin(trials)) is not None:
                trial, lock = begun
                try:
                    self._play(trial)
                finally:
                    Path(lock.lock_file).unlink(missing_ok=True)
                    lock.release()
            self._show()

    @_readable()
    def _open(self) -> None:
        """Opens the study, or makes it, and refuses one whose trials are not comparable."""
        lowest, highest = StudyDirection.MINIMIZE, StudyDirection.MAXIMIZE
        directions = [lowest if lower else highest for lower in self.objectives.values()]
        space = {key: distribution_to_json(one) for key, one in self.search.items()}
        asked = {"search": space, "objective": list(self.objectives)}
        with claim(self.folder, wait=True):
            (self.folder / "trials").mkdir(exist_ok=True)
            storage = optuna.storages.RDBStorage(
                f"sqlite:///{DATABASE}", engine_kwargs={"creator": self._connect}
            )
            self.study = optuna.create_study(
                study_name="fairbandit",
                storage=storage,
                directions=directions,
                load_if_exists=True,
            )
            if not self.study.trials:
                for key, value in asked.items():
                    self.study.set_user_attr(key, value)
        different = [key for key in asked if self.study.user_attrs[key] != asked[key]]
        if not different:
            for trial in self._trials(TrialState.COMPLETE)[:1]:
                config = self._config(trial)
                now = identity(
                    build_policy(config["policy"]), config["environment"], settings(config)
                )
                summary, why = finished(self._run_folder(trial), now, resume=True)
                different = [why] if summary and why else []
        if different:
            raise FairbanditError(
                f"the trials of the study in {short(self.folder)} cannot be compared with those "
                f"asked for, because of {', '.join(different)}; folder=DIR or resume=false begins "
                "another study"
            )

    def _connect(self) -> sqlite3.Connection:
        """Connects to the database; its address could not hold every name of a folder."""
        return sqlite3.connect(self.folder / DATABASE, timeout=60.0, check_same_thread=False)

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states or None)

    def _run_folder(self, trial: Trial | FrozenTrial) -> Path:
        return self.folder / "trials" / str(int(trial.user_attrs[_INDEX]))

    def _config(self, trial: Trial | FrozenTrial) -> dict[str, Any]:
        return composed([*self.words, *overrides(trial.params)])

    @_readable()
    def _begin(self, most: int) -> tuple[Trial, BaseFileLock] | None:
        """Begins a trial, or one again that was interrupted; None if there are enough.

        A process holds the lock of the trial that it plays, so that a running trial whose lock is
        free was interrupted. It counts as failed, and its values are tried again under its index,
        the number of trials before it. Trials that failed by themselves have an error, and stay.
        """
        with claim(self.folder, wait=True):
            for left in self._trials(TrialState.RUNNING):
                lock = self._lock(left)
                with suppress(Timeout), lock.acquire(timeout=0):
                    Path(lock.lock_file).unlink()
                    self.study.enqueue_trial(left.params, user_attrs=left.user_attrs)
                    self.study.tell(left.number, state=TrialState.FAIL)
            begun = sum(
                trial.state != TrialState.WAITING
                and (trial.state != TrialState.FAIL or _ERROR in trial.user_attrs)
                for trial in self._trials()
            )
            if begun >= most:
                return None
            (seed,) = np.random.SeedSequence([self.seed, begun]).generate_state(1).tolist()
            self.study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
            trial = self.study.ask(dict(self.search))
            trial.set_user_attr(_INDEX, int(trial.user_attrs.get(_INDEX, begun)))
            lock = self._lock(trial)
            lock.acquire(timeout=0)
            return trial, lock

    def _lock(self, trial: Trial | FrozenTrial) -> BaseFileLock:
        return FileLock(self.folder / "trials" / f"{trial.number}.lock")

    def _play(self, trial: Trial) -> None:
        """Plays a trial and tells the study what came of it.

        Raises:
            Exception: the trial failed before any was complete, or nothing can be written. It
                counts as interrupted.
        """
        line = f"trial {trial.user_attrs[_INDEX]}  {_listed(trial.params)}"
        failure = ""
        try:
            summary = execute(
                self._config(trial) | {"resume": True},
                self._run_folder(trial),
                watch=self._watch(trial),
            )
            values = {column: summary["metrics"][column]["mean"] for column in self.objectives}
            if None in values.values():
                raise FairbanditError(f"the run has no finite {_listed(values)}")
            told: dict[str, Any] = {"values": list(values.values())}
            line += f"  {_listed(values)}"
        except optuna.TrialPruned:
            told = {"state": TrialState.PRUNED}
            line += "  stopped early"
        except Exception as error:
            if isinstance(error, StorageError) or not self._trials(TrialState.COMPLETE):
                raise
            failure = in_a_line(error)
            told = {"state": TrialState.FAIL}
            line += f"  failed: {one_message(error)}"
        with _readable(), claim(self.folder, wait=True):
            if failure:
                trial.set_user_attr(_ERROR, failure)
            self.study.tell(trial, **told)
        console().print(line, soft_wrap=True, highlight=False)

    def _watch(self, trial: Trial) -> Callable[[int, Mapping[str, float]], None] | None:
        """Returns what reports a running curve, and stops the trial by the median rule.

        Optuna's own median pruner compares the best of a trial's reports. Where a metric adds up
        regret this is always the first, so that it would stop nothing. It also compares with
        complete trials only, of which ever better ones are left.
        """
        if len(self.objectives) > 1:
            return None
        ((column, lower),) = self.objectives.items()
        every = max(1, self.rounds // (_REPORTS * GRID)) * GRID

        def watch(t: int, means: Mapping[str, float]) -> None:
            if t % every or t >= self.rounds or not isfinite(means[column]):
                return
            with _readable():
                trial.report(means[column], t)
                ended = self._trials(TrialState.COMPLETE, TrialState.PRUNED)
            others = [one.intermediate_values[t] for one in ended if t in one.intermediate_values]
            if self.prune and len(others) >= _STARTUP and t >= _WARM_UP * self.rounds:
                excess = means[column] - median(others)
                if (excess if lower else -excess) > 0:
                    raise optuna.TrialPruned

        return watch

    @_readable()
    def _show(self) -> None:
        """Prints the best trials with commands that play them again, and draws the study."""
        shown, count = console(), Counter(trial.state for trial in self._trials())
        best = self.study.best_trials if count[TrialState.COMPLETE] else []
        best = list({tuple(trial.values): trial for trial in reversed(best)}.values())[::-1]
        rows = [
            [_text(trial.user_attrs[_INDEX]), *map(_text, trial.values)]
            + [_text(trial.params[key]) for key in self.search]
            for trial in best
        ]
        headers = ["trial", *self.objectives, *map(_brief, self.search)]
        others = {
            "stopped early": count[TrialState.PRUNED],
            "failed": sum(_ERROR in trial.user_attrs for trial in self._trials()),
            "still played by another process": count[TrialState.RUNNING],
        }
        title = "Best" if len(self.objectives) == 1 else "Not dominated"
        title += f" of {count[TrialState.COMPLETE]} complete trials"
        title += "".join(f", {number} {what}" for what, number in others.items() if number)
        shown.print(make_table(headers, rows, right=headers, title=title))
        words = [word for word in self.words if not word.startswith("seed=")]
        for trial, (index, *_) in zip(best, rows, strict=True):
            again = ["fairbandit", *words, *overrides(trial.params), f"seed={self.seed + 1}"]
            shown.print(
                named(f"trial {index} with fresh replicas", shlex.join(again)), soft_wrap=True
            )
        drawn = draw_study(self.study, list(self.objectives), self.folder / FIGURES)
        if drawn:
            where = f"{short(self.folder / FIGURES)}: {', '.join(drawn)}"
            shown.print(named("figures", where), soft_wrap=True)


def _listed(values: Mapping[str, Any]) -> str:
    return " ".join(f"{_brief(key)}={_text(value)}" for key, value in values.items())


def _brief(key: str) -> str:
    return key.rpartition(".")[2]


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
