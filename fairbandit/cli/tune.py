"""`fairbandit tune`: searches for good hyperparameters with an Optuna study.

A trial is an ordinary run in the study's folder. The study is kept beside it in SQLite, so that the
same command continues it, and several processes may play trials of one study. Each trial is drawn
by a sampler of its own, whose seed depends on the study's seed and the number of trials before:
what one process plays does not depend on where it was interrupted.
"""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from filelock import BaseFileLock, FileLock, Timeout
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from fairbandit import registry
from fairbandit.building import build, build_policy, conf_folder
from fairbandit.cli.configs import plain_value
from fairbandit.cli.messages import in_a_line, one_message, short
from fairbandit.cli.names import job_name
from fairbandit.cli.parsers import quoted, read_parameters, tool_parser
from fairbandit.cli.store import publish, register_resolvers
from fairbandit.cli.study_figures import draw_study
from fairbandit.errors import FairbanditError
from fairbandit.metrics import REGRETS
from fairbandit.run import summary as summaries
from fairbandit.run.execute import execute
from fairbandit.run.folder import SUMMARY, StorageError, claim, fresh
from fairbandit.run.identity import changes, identity
from fairbandit.run.settings import Settings, check_metrics, settings
from fairbandit.run.table import console, make_table, named

try:
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.trial import FrozenTrial, Trial, TrialState
    from sqlalchemy.exc import SQLAlchemyError
except ImportError as missing:
    raise FairbanditError(
        "tuning needs Optuna, which is not installed; pip install 'fairbandit[optuna]' installs it "
        "(in a checkout, pip install -e '.[optuna]')"
    ) from missing

_HELP = """\
Searches for the values of some keys with which a metric becomes best. Each trial plays the run that
the other words describe, with values that Optuna's TPE sampler chooses by the trials before. The
same command continues a study, completes its number of trials, and shows the best. Given again in
another terminal meanwhile, it plays trials of the same study side by side.

words:
  search={KEY: SPACE, ...}   the keys of the config that vary. SPACE is {low: 0.1, high: 10}, with
                             log: true or step: 0.1 if wished, or a list of choices; whole numbers
                             give whole numbers
  objective=METRIC           fair_regret, standard_regret or a column of metrics; a list of them
                             looks for trials that none is better than in all [fair_regret]
  trials=N                   how many trials the study has in the end [50]
  prune=false                plays every trial to its end. Otherwise a trial with one objective is
                             stopped when a quarter of its rounds are played and its objective is
                             worse than the median of at least five complete trials at that round
  folder=DIR                 where the study is kept [outputs/studies/NAME, by the other words]
  KEY=VALUE                  everything else is as for a run; resume=false begins a new study"""

_EXAMPLES = """\
examples:
  fairbandit tune 'search={policy.estimator.regularization: {low: 1e-3, high: 10, log: true}}'
  fairbandit tune policy=oful rounds=1000 replicas=100 trials=30 objective=standard_regret \\
      'search={policy.estimator.exploration: {low: 0.001, high: 1, log: true}}'
  fairbandit tune 'objective=[fair_regret,standard_regret]' policy/rank=tradeoff \\
      'search={policy.rank.alpha: {low: 0.0, high: 1.0}}'"""

DATABASE = "study.db"
"""The file of a study's folder that keeps the study."""

FIGURES = "figures"
"""The subfolder of a study's figures."""

_OWN = ("search", "objective", "trials", "prune", "folder")
_NAME = "fairbandit"  # of the study in its database
_INDEX, _SEEN, _ERROR = "index", "seen", "error"  # attributes of trials
_CONFIG = (*(field.name for field in fields(Settings)), "policy", "environment")
_STORAGE = (SQLAlchemyError, optuna.exceptions.StorageInternalError, sqlite3.Error)
_DAMAGE = (LookupError, TypeError, ValueError, AttributeError)
_REPORTS = 20  # the largest number of reports of a trial to its study
_STARTUP = 5  # complete trials before others are compared with them
_WARM_UP = 0.25  # the share of the rounds before a trial may be stopped


@dataclass(frozen=True)
class _Task:
    """What a command asks for.

    Attributes:
        words: the overrides of every trial.
        search: the distribution of each key.
        objectives: whether lower is better, by the column of the metric.
        trials: how many trials the study has in the end.
        prune: whether trials are stopped early.
        folder: the study's.
        seed: the seed of the sampler and of every run.
        rounds: T.
    """

    words: Sequence[str]
    search: Mapping[str, BaseDistribution]
    objectives: Mapping[str, bool]
    trials: int
    prune: bool
    folder: Path
    seed: int
    rounds: int

    def run_folder(self, trial: Trial | FrozenTrial) -> Path:
        """The folder of a trial's run."""
        return self.folder / "trials" / str(int(trial.user_attrs[_INDEX]))

    def lock(self, number: int) -> BaseFileLock:
        """The lock of a trial."""
        return FileLock(self.folder / "trials" / f"{number}.lock")

    def config(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The config of a trial with these values."""
        return _composed([*self.words, *_overrides(values)]) | {"resume": True}


def tune(words: Sequence[str]) -> None:
    """Plays the trials that a study lacks, and shows the best.

    Args:
        words: overrides of a run, and the tool's own.

    Raises:
        FairbanditError: wrong words, a study of other words, or a trial that fails before any is
            complete.
    """
    parser = tool_parser("tune", _HELP, _EXAMPLES)
    parser.add_argument("words", nargs="+", metavar="KEY=VALUE", help="see above")
    publish()
    register_resolvers()
    task = _task(parser.parse_args(words).words)
    console().print(named("study", short(task.folder)), soft_wrap=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    database = short(task.folder / DATABASE)
    with warnings.catch_warnings(), _one_message(database, *_STORAGE):
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        with _one_message(database, *_DAMAGE):
            study = _opened(task)
            begun = _begin(study, task)
        while begun is not None:
            trial, lock = begun
            try:
                _play(study, trial, task)
            finally:
                Path(lock.lock_file).unlink(missing_ok=True)
                lock.release()
            begun = _begin(study, task)
        with _one_message(database, *_DAMAGE):
            _show(study, task)


def _task(words: Sequence[str]) -> _Task:
    """Reads the words, and checks them with the first values of the search space."""
    own = [word for word in words if word.partition("=")[0] in _OWN]
    others = [word for word in words if word not in own]
    given = {"objective": "fair_regret", "trials": 50, "prune": None} | read_parameters(own, "tune")
    trials, prune = given["trials"], given["prune"]
    if type(trials) is not int or trials < 1:
        raise FairbanditError(f"trials must be a whole number of at least 1, got {trials!r}")
    if prune not in (None, True, False):
        raise FairbanditError(f"prune must be true or false, got {prune!r}")
    search, firsts = _search(given.get("search"))
    config = _composed([*others, *_overrides(firsts)])
    environment: Any = build(config["environment"])
    objectives = _objectives(given["objective"], config, environment)
    if prune and len(objectives) > 1:
        raise FairbanditError("prune=true needs one objective: Optuna cannot prune with several")
    named_by = [word for word in words if word.partition("=")[0] not in (*_OWN[2:], "resume")]
    folder = Path(str(given.get("folder") or f"outputs/studies/{job_name(named_by)}")).absolute()
    return _Task(
        words=[word for word in others if word.partition("=")[0] != "resume"],
        search=search,
        objectives=objectives,
        trials=trials,
        prune=prune is not False and len(objectives) == 1,
        folder=folder if config["resume"] else fresh(folder),
        seed=config["seed"],
        rounds=config["rounds"] or environment.rounds,
    )


def _search(given: Any) -> tuple[dict[str, BaseDistribution], dict[str, Any]]:
    """Reads a search space: the distribution and the first value of each key."""
    if not isinstance(given, dict) or not given:
        raise FairbanditError(
            "search must map keys to their values, as in 'search={policy.estimator.regularization: "
            f"{{low: 1e-3, high: 10, log: true}}, policy.rank.bandwidth: [0.1, 1]}}'; got {given!r}"
        )
    found, firsts = {}, {}
    for key, space in given.items():
        try:
            found[key], firsts[key] = _distribution(space)
        except (ValueError, TypeError) as error:
            raise FairbanditError(
                f"search: {key} is {space!r}; expected {{low: 0.1, high: 10}}, with log: true or "
                f"step: 0.1 if wished, or a list of numbers, texts or booleans ({error})"
            ) from None
    return found, firsts


def _distribution(space: Any) -> tuple[BaseDistribution, Any]:
    if isinstance(space, list):
        if not all(isinstance(choice, (str, int, float, bool, type(None))) for choice in space):
            raise TypeError("a choice is a list or a mapping")
        return CategoricalDistribution(space), space[0]
    ends = [space["low"], space["high"]] if {"low", "high"} <= set(space) else []
    numbers = [*ends, *([space["step"]] if "step" in space else [])]
    if not ends or any(type(number) not in (int, float) for number in numbers):
        raise TypeError("low and high must be numbers")
    if unknown := set(space) - {"low", "high", "log", "step"}:
        raise TypeError(f"{', '.join(map(repr, unknown))} is not known")
    whole = all(type(number) is int for number in numbers)
    return (IntDistribution if whole else FloatDistribution)(**space), ends[0]


def _objectives(given: Any, config: Mapping[str, Any], environment: Any) -> dict[str, bool]:
    """Reads the objectives: whether lower is better, by column."""
    metrics = {column: {"name": column} for column in REGRETS} | check_metrics(config["metrics"])
    columns = given if isinstance(given, list) else [given]
    classes = {column: registry.lookup("metric", spec["name"]) for column, spec in metrics.items()}
    if not columns or not all(isinstance(column, str) and column in classes for column in columns):
        raise FairbanditError(
            f"objective is a metric that the run records, or a list of them; got {given!r}; the "
            f"run records {', '.join(classes)}, and metrics={{COLUMN: NAME}} adds others"
        )
    if environment.truth is None and any(classes[column].needs_truth for column in columns):
        known = [column for column, metric in classes.items() if not metric.needs_truth]
        raise FairbanditError(
            f"objective: {', '.join(columns)} cannot be known, because the environment "
            f"{environment.part_name!r} has no truth; metrics of this run that need none: "
            f"{', '.join(known) or 'none; metrics={COLUMN: NAME} records some'}"
        )
    return {column: classes[column].lower_is_better for column in columns}


def _composed(words: Sequence[str]) -> dict[str, Any]:
    """Composes the config of a run as Hydra does for the command line, as plain data."""
    try:
        with initialize_config_dir(str(conf_folder()), version_base="1.3"):
            config = compose("config", overrides=list(map(quoted, words)))
    except (HydraException, OmegaConfBaseException) as error:
        raise FairbanditError(one_message(error)) from None
    return {key: plain_value(config, key) for key in _CONFIG}


def _overrides(values: Mapping[str, Any]) -> list[str]:
    """The words that set values; texts are quoted where Hydra's grammar needs it."""
    return [
        f"{key}={value}"
        if isinstance(value, str) and value.isidentifier()
        else f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in values.items()
    ]


@contextmanager
def _one_message(database: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Turns errors of reading and writing the study into one message."""
    try:
        yield
    except kinds as error:
        raise FairbanditError(
            f"the study {database} cannot be read or written: {in_a_line(error.__cause__ or error)}"
        ) from error


def _opened(task: _Task) -> optuna.Study:
    """Opens the study, or makes it.

    Raises:
        FairbanditError: the folder holds a study of something else.
    """
    connect = partial(
        sqlite3.connect, task.folder / DATABASE, timeout=60.0, check_same_thread=False
    )  # by hand, since an address cannot hold every name of a folder
    with claim(task.folder, wait=True):
        (task.folder / "trials").mkdir(exist_ok=True)
        study = optuna.create_study(
            study_name=_NAME,
            storage=optuna.storages.RDBStorage(
                f"sqlite:///{DATABASE}", engine_kwargs={"creator": connect}
            ),
            directions=["minimize" if lower else "maximize" for lower in task.objectives.values()],
            load_if_exists=True,
        )
        space = {
            key: optuna.distributions.distribution_to_json(one) for key, one in task.search.items()
        }
        asked = {"search": space, "objective": list(task.objectives)}
        if not study.trials:
            for key, value in asked.items():
                study.set_user_attr(key, value)
        told = [key for key, value in asked.items() if study.user_attrs.get(key) != value]
    complete = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    if not told and complete and (task.run_folder(complete[0]) / SUMMARY).exists():
        config = task.config(complete[0].params)
        now = identity(build_policy(config["policy"]), config["environment"], settings(config))
        told = changes(summaries.read(task.run_folder(complete[0]))["identity"], now)
    if told:
        raise FairbanditError(
            f"{short(task.folder)} holds a study whose trials cannot be compared with those asked "
            f"for: {', '.join(told)}; folder=DIR chooses another folder, and resume=false a new one"
        )
    return study


def _begin(study: optuna.Study, task: _Task) -> tuple[Trial, BaseFileLock] | None:
    """Begins a trial, or one again that was interrupted; None if there are enough.

    A process holds the lock of the trial that it plays, so that a running trial whose lock is free
    was interrupted. It counts as failed, and its values are tried again under its index, which is
    the number of trials before. Other failed trials have an error, and stay.
    """
    with claim(task.folder, wait=True):
        for left in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            lock = task.lock(left.number)
            with suppress(Timeout), lock.acquire(timeout=0):
                Path(lock.lock_file).unlink()
                kept = {**left.user_attrs, _SEEN: left.intermediate_values}
                study.tell(left.number, state=TrialState.FAIL)
                study.enqueue_trial(left.params, user_attrs=kept)
        begun = sum(
            trial.state != TrialState.WAITING
            and (trial.state != TrialState.FAIL or _ERROR in trial.user_attrs)
            for trial in study.get_trials(deepcopy=False)
        )
        if begun >= task.trials:
            return None
        (drawn,) = np.random.SeedSequence([task.seed, begun]).generate_state(1).tolist()
        study.sampler = optuna.samplers.TPESampler(seed=drawn, constant_liar=True)
        trial = study.ask(dict(task.search))
        trial.set_user_attr(_INDEX, int(trial.user_attrs.get(_INDEX, begun)))
        for t, value in trial.user_attrs.get(_SEEN, {}).items():
            trial.report(value, int(t))
        lock = task.lock(trial.number)
        lock.acquire(timeout=0)
        return trial, lock


def _play(study: optuna.Study, trial: Trial, task: _Task) -> None:
    """Plays a trial and tells the study its objectives.

    Raises:
        FairbanditError, Exception: the trial failed, and no trial is complete or nothing can be
            written. It is played again by the same command.
    """
    shown = console()
    line = f"trial {trial.user_attrs[_INDEX]}  {_listed(trial.params)}"
    seen = {_part(task, int(t)) for t in trial.user_attrs.get(_SEEN, {})}
    try:
        summary = execute(
            task.config(trial.params),
            task.run_folder(trial),
            watch=partial(_watch, study, trial, task, seen),
        )
        values = [_value(summary, column) for column in task.objectives]
        told: dict[str, Any] = {"values": values}
        line += f"  {_listed(dict(zip(task.objectives, values, strict=True)))}"
    except optuna.TrialPruned:
        told = {"state": TrialState.PRUNED}
        line += "  stopped early"
    except Exception as error:
        complete = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        if isinstance(error, StorageError) or not complete:
            raise
        trial.set_user_attr(_ERROR, in_a_line(error))
        told = {"state": TrialState.FAIL}
        line += f"  failed: {one_message(error)}"
    with claim(task.folder, wait=True):
        study.tell(trial, **told)
    shown.print(line, soft_wrap=True, highlight=False)


def _watch(
    study: optuna.Study,
    trial: Trial,
    task: _Task,
    parts: set[int],
    t: int,
    means: Mapping[str, float],
) -> None:
    """Reports a running curve some times, and stops a trial by the median rule.

    Optuna's own median pruner takes the best value of all reports so far. That is the first one
    where a metric adds up regret, so that it would stop nothing.

    Raises:
        TrialPruned: the trial is worse at round t than the median of the complete ones was.
    """
    if len(task.objectives) > 1 or t >= task.rounds or _part(task, t) in parts:
        return
    ((column, lower),) = task.objectives.items()
    parts.add(_part(task, t))
    trial.report(means[column], t)
    complete = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    others = [one.intermediate_values[t] for one in complete if t in one.intermediate_values]
    if task.prune and len(others) >= _STARTUP and t >= _WARM_UP * task.rounds:
        excess = means[column] - median(others)
        if (excess if lower else -excess) > 0:
            raise optuna.TrialPruned


def _part(task: _Task, t: int) -> int:
    return _REPORTS * t // task.rounds


def _value(summary: Mapping[str, Any], column: str) -> float:
    """Returns the mean over replicas of a metric's final value."""
    spread = summary["metrics"].get(column) or summary[column.replace("_regret", "_pseudo_regret")]
    if spread["mean"] is None:
        raise FairbanditError(f"objective: the run has no finite value of {column}")
    return float(spread["mean"])


def _listed(values: Mapping[str, Any]) -> str:
    return " ".join(f"{_brief(key)}={_text(value)}" for key, value in values.items())


def _brief(key: str) -> str:
    return re.sub(r"^policy[./]", "", key)


def _text(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else json.dumps(value).strip('"')


def _show(study: optuna.Study, task: _Task) -> None:
    """Prints the best trials with commands that play them again, and draws the study."""
    shown = console()
    trials = study.get_trials(deepcopy=False)
    count = Counter(trial.state for trial in trials)
    best = study.best_trials if count[TrialState.COMPLETE] else []
    best = list({tuple(trial.values): trial for trial in reversed(best)}.values())[::-1]
    rows = [
        [
            *map(_text, [trial.user_attrs[_INDEX], *trial.values]),
            *(_text(trial.params[key]) for key in task.search),
        ]
        for trial in best
    ]
    headers = ["trial", *task.objectives, *map(_brief, task.search)]
    which = "Best" if len(task.objectives) == 1 else "Not dominated"
    others = {
        "stopped early": count[TrialState.PRUNED],
        "failed": sum(_ERROR in trial.user_attrs for trial in trials),
        "still played by another process": count[TrialState.RUNNING],
    }
    title = [f"{which} of {count[TrialState.COMPLETE]} complete trials"]
    title += [f"{number} {what}" for what, number in others.items() if number]
    shown.print(make_table(headers, rows, right=headers, title=", ".join(title)))
    words = [word for word in task.words if not word.startswith("seed=")]
    for trial in best:
        again = [*words, *_overrides(trial.params), f"seed={task.seed + 1}"]
        what = f"trial {trial.user_attrs[_INDEX]} with fresh replicas"
        shown.print(named(what, shlex.join(["fairbandit", *again])), soft_wrap=True)
    drawn = draw_study(study, list(task.objectives), task.folder / FIGURES)
    if drawn:
        shown.print(named("figures", f"{short(task.folder / FIGURES)}: {', '.join(drawn)}"))
