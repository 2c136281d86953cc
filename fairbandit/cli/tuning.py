"""Tuning: a sweep whose jobs an Optuna study chooses by the objectives of those before.

A study is a function of its search space, of its sampler's seed and of the objectives of its
trials. A study that is given again is therefore told again from its first trial: runs that are
finished return their objective at once, an interrupted one continues from its checkpoint, and the
others are played. It ends as if it had never been stopped, and completes its number of trials. The
database only shows the study; it is never read to continue one.
"""

from __future__ import annotations

import logging
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from rich.console import Console
from rich.table import Table

from fairbandit.cli.configs import plain_value, tunes
from fairbandit.errors import FairbanditError
from fairbandit.figures.draw import Drawn, save
from fairbandit.figures.study import Trial, Trials, compose_study
from fairbandit.run.objective import metric_class, read_objective
from fairbandit.run.settings import check_metrics
from fairbandit.run.table import make_table, named

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

DATABASE = "study.db"
"""The file of a sweep's folder that keeps the study, for viewers of studies."""

FIGURE = "study"
"""The name of the figure of a study."""

REPLICAS = 10
"""How many fresh replicas the command plays that is shown with a best trial."""

_OPTUNA = "hydra_plugins.hydra_optuna_sweeper.optuna_sweeper.OptunaSweeper"
_OWN = ("seed", "replicas", "resume", "figures", "objective")  # keys that a fresh run sets or lacks


@dataclass(frozen=True)
class Study:
    """A study that drives a sweep.

    Attributes:
        folder: the sweep's.
        objectives: whether lower is better, by objective.
        seed: the seed of its runs.
        sources: the folders of config files that the command line added.
    """

    folder: Path
    objectives: Mapping[str, bool]
    seed: int
    sources: tuple[str, ...] = ()

    @property
    def storage(self) -> str:
        """The address of the database."""
        return f"sqlite:///{self.folder / DATABASE}"

    def begin(self) -> None:
        """Removes the database of an earlier attempt, whose trials are told again."""
        for left in (DATABASE, f"{DATABASE}-journal"):
            (self.folder / left).unlink(missing_ok=True)


def planned_study(config: DictConfig, folder: Path) -> Study | None:
    """Checks a sweep that tunes, and completes the config of its sweeper.

    Optuna's sweeper gets the database, the directions that the metrics declare, and the run's seed
    where its sampler has none.

    Args:
        config: the sweep's, which is changed.
        folder: the sweep's, absolute.

    Returns:
        The study, if Optuna's sweeper drives the sweep.

    Raises:
        FairbanditError: there is no objective, the run does not record it, or its direction
            contradicts the metric's; or no trial is asked for.
    """
    if not tunes(config.hydra):
        return None
    metrics = check_metrics(plain_value(config, "metrics"))
    columns = read_objective(plain_value(config, "objective"), metrics).columns
    if not columns:
        name = str(config.hydra.sweeper._target_).rpartition(".")[2]
        raise FairbanditError(
            f"{name} chooses jobs by an objective, and none is given; objective=fair_regret "
            "names a metric, objective=[fair_regret,standard_regret] several"
        )
    if config.hydra.sweeper._target_ != _OPTUNA:
        return None
    lower = {column: metric_class(column, metrics).lower_is_better for column in columns}
    added = [one for one in config.hydra.runtime.config_sources if one.provider == "command-line"]
    study = Study(folder, lower, config.seed, tuple(one.path for one in added))
    with read_write(config), open_dict(config):
        _complete(config.hydra.sweeper, study)
    return study


def _complete(sweeper: DictConfig, study: Study) -> None:
    """Sets what the study decides in the config of Optuna's sweeper."""
    _optuna().logging.set_verbosity(logging.WARNING)
    for key in ("n_trials", "n_jobs"):
        if sweeper[key] < 1:
            raise FairbanditError(f"hydra.sweeper.{key} must be at least 1, got {sweeper[key]}")
    if "?" in study.storage:
        raise FairbanditError(
            f"a study cannot be kept in {study.folder}: the path of its database must have no "
            "question mark; choose another folder with hydra.sweep.dir"
        )
    declared = ["minimize" if lower else "maximize" for lower in study.objectives.values()]
    chosen: Any = OmegaConf.to_container(sweeper, enum_to_str=True)
    given = chosen["direction"]
    if given is not None and (given if isinstance(given, list) else [given]) != declared:
        wanted = declared[0] if len(declared) == 1 else f"[{','.join(declared)}]"
        raise FairbanditError(
            f"hydra.sweeper.direction is {given}, but the metrics {', '.join(study.objectives)} "
            f"declare {wanted}; give that, or null, which takes what they declare"
        )
    sweeper.direction = declared
    sweeper.storage = study.storage
    sweeper.study_name = sweeper.study_name or study.folder.name
    if sweeper.sampler.get("seed", 0) is None:
        sweeper.sampler.seed = study.seed


def show_study(study: Study, out: Path, shown: Console) -> list[Drawn]:
    """Prints the best trials of a study with commands that play them again, and draws the study.

    Args:
        study: the study, as far as it went.
        out: the folder of the figure.
        shown: where to print.

    Returns:
        The figure; none if no trial is complete.

    Raises:
        FairbanditError: the folder cannot be written to.
    """
    if not (study.folder / DATABASE).exists():  # cut short before it began
        return []
    optuna = _optuna()
    (summary,) = optuna.get_all_study_summaries(study.storage)
    loaded = optuna.load_study(study_name=summary.study_name, storage=study.storage)
    found = loaded.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    if not found:
        return []
    best = loaded.best_trials if len(study.objectives) > 1 else [loaded.best_trial]
    trials = Trials(
        study.objectives,
        [Trial(trial.number, tuple(trial.values), trial.params) for trial in found],
        [trial.number for trial in best],
        {name for trial in found for name, one in trial.distributions.items() if _is_log(one)},
    )
    shown.print(_best_table(trials))
    for trial in best:
        shown.print(named(f"trial {trial.number} again", _command(study, trial)), soft_wrap=True)
    return [Drawn(FIGURE, FIGURE, save(compose_study(trials), out, FIGURE))]


def _optuna() -> Any:
    """Imports Optuna without what SQLAlchemy has to say to the authors of Optuna."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import optuna
    return optuna


def _is_log(distribution: Any) -> bool:
    kinds = ("LogUniformDistribution", "IntLogUniformDistribution")
    return type(distribution).__name__ in kinds


def _command(study: Study, trial: FrozenTrial) -> str:
    """The command that plays a trial's setting again, with fresh replicas and as a single run."""
    sources = [f"--config-dir={path}" for path in study.sources]
    settings = {**trial.user_attrs, **trial.params}
    words = [f"{key}={value}" for key, value in settings.items() if key not in _OWN]
    fresh = [f"seed={study.seed + 1}", f"replicas={REPLICAS}", "hydra.mode=RUN"]
    return shlex.join(["fairbandit", *sources, *words, *fresh])


def _best_table(trials: Trials) -> Table:
    """Makes a table of the best trials: their objectives and parameters."""
    parameters = trials.parameters
    rows = [
        [
            str(trial.number),
            *(f"{value:,.4g}" for value in trial.values),
            *(_shown(trial.parameters.get(name, "–")) for name in parameters),
        ]
        for trial in trials.trials
        if trial.number in trials.best
    ]
    headers = ["trial", *trials.objectives, *parameters]
    which = "Best" if len(trials.objectives) == 1 else "Not dominated"
    title = f"{which} of {len(trials.trials)} trials"
    return make_table(headers, rows, right=headers, title=title)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
