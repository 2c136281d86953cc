"""`fairbandit tune`: lets Optuna choose values of a run's keys, plays them, and shows the best.

Each trial has its own sampler, seeded by the run's seed and the number of trials that have ended.
An interrupted study therefore continues as if it had not been interrupted.
"""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from fairbandit import registry
from fairbandit.cli.messages import in_a_line, one_message, short
from fairbandit.cli.parsers import quoted, read_parameters, tool_parser
from fairbandit.cli.store import plain_config, publish
from fairbandit.errors import FairbanditError, brief, did_you_mean, unknown
from fairbandit.files.files import fresh, within
from fairbandit.files.formats import Plain
from fairbandit.policy.build import config_folders
from fairbandit.report.study import DATABASE, SavedTrial
from fairbandit.runs.execute import execute
from fairbandit.runs.folder import StorageError, claim, folder_name
from fairbandit.runs.identity import differences, identity
from fairbandit.runs.settings import checked
from fairbandit.runs.sheets import console, make_table, named
from fairbandit.streams import CHUNK_ROUNDS

try:
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.trial import FrozenTrial, Trial, TrialState
    from sqlalchemy.exc import SQLAlchemyError
except ImportError as error:
    raise FairbanditError("tuning needs Optuna; pip install 'fairbandit[optuna]'") from error

_HELP = """\
Searches for the values of some keys that optimise a metric. Optuna chooses the values of each
trial from earlier trials. Repeating the command continues the study up to its number of trials.

words:
  search={KEY: SPACE, ...}   the keys that vary. SPACE is a list of choices, which may be lists, or
                             {low: 0.1, high: 10}, optionally with log: true or step: 0.1;
                             integers give integers
  objective=METRIC           a metric that the run records, or a list of them [fair_regret]
  trials=N                   the total number of trials [50]
  prune=false                plays every trial to its end, even if it is worse than the median
  folder=DIR                 the folder of the study [outputs/studies/NAME, by the other words]
  resume=false               begins a new study
  KEY=VALUE                  any other key is set for every run"""

_EXAMPLES = """\
example:
  fairbandit tune policy=oful rounds=1000 replicas=100 trials=30 objective=standard_regret \\
      'search={policy.estimator.exploration: {low: 0.001, high: 1, log: true}}'"""

_UNNAMED = {"trials": 50, "prune": True, "resume": True, "folder": None}
_OWN = {"search": None, "objective": "fair_regret", **_UNNAMED}

_REPORTS = 20  # approximate number of reports of a trial
_STARTUP = 5  # number of trials needed for a comparison
_WARM_UP = 0.25  # share of the rounds before a trial may be stopped


def tune(words: Sequence[str]) -> None:
    """Plays the remaining trials of a study, and shows the best."""
    parser = tool_parser("tune", _HELP, _EXAMPLES)
    parser.add_argument("words", nargs="+", metavar="KEY=VALUE", help="see above")
    words = parser.parse_args(words).words
    study_words = [word for word in words if word.partition("=")[0] in _OWN]
    others = [word for word in words if word not in study_words]
    for key in (word.partition("=")[0] for word in others):
        if "." not in key and did_you_mean(key, _OWN):
            raise unknown("key", key, _OWN)
    given = _OWN | read_parameters(study_words, "tune")
    for key, kind in (("trials", int), ("prune", bool), ("resume", bool)):
        if type(given[key]) is not kind or given["trials"] < 1:
            wanted = "1, 2, …" if kind is int else "true or false"
            raise FairbanditError(f"{key} must be {wanted}, got {given[key]!r}")
    publish()
    search = _search(given["search"])
    spaces = given["search"].items()
    first = {key: space[0] if isinstance(space, list) else space["low"] for key, space in spaces}
    config = _composed([*others, *_overrides(first)])
    run = identity(checked(config))
    asked = {**run, "search": given["search"], "objective": given["objective"]}
    objectives = _objectives(given["objective"], run["config"]["metrics"])
    name = folder_name(word for word in words if word.partition("=")[0] not in _UNNAMED)
    folder = Path(str(given["folder"] or f"outputs/studies/{name}")).absolute()
    folder = folder if given["resume"] else fresh(folder)
    console().print(named("study", short(folder)), soft_wrap=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        taken = f"another command plays the study in {short(folder)}"
        with claim(folder, taken), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The reported value is ignored")  # when resumed
            study = _Study(folder, others, search, objectives, asked, given["prune"])
            while len(study.ended()) < given["trials"]:
                study.play()
            study.show()
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = in_a_line(error.__cause__ or error)
        raise FairbanditError(f"{DATABASE} cannot be read or written: {reason}") from error


def _composed(words: Sequence[str]) -> dict[str, Any]:
    """Returns the config of a run as plain data, composed as for the command line."""
    try:
        own, *others = map(str, config_folders())
        search = [f"hydra.searchpath={[f'file://{folder}' for folder in others]}"]
        with initialize_config_dir(own, version_base="1.3"):
            config = plain_config(compose("config", overrides=[*map(quoted, words), *search]))
    except (HydraException, OmegaConfBaseException) as error:
        raise FairbanditError(one_message(error)) from None
    return {key: value for key, value in config.items() if key != "figures"}


def _overrides(values: Mapping[str, Any]) -> list[str]:
    words = []
    for key, value in values.items():
        bare = isinstance(value, str) and value.isidentifier()  # other texts need quotes
        words.append(f"{key}={value if bare else json.dumps(value, ensure_ascii=False)}")
    return words


def _search(given: Any) -> dict[str, Any]:
    if given is None:
        raise FairbanditError(
            "tune needs the keys that it varies, as in 'search={policy.estimator.exploration: "
            "{low: 0.001, high: 1, log: true}}'"
        )
    try:
        with warnings.catch_warnings(action="error"):  # Optuna warns of invalid choices and steps
            return {key: _distribution(space) for key, space in given.items()}
    except (AttributeError, TypeError, ValueError, UserWarning) as error:
        raise FairbanditError(
            "search must map keys to lists of choices, or to {low: 0.1, high: 10}, optionally with "
            f"log: true or step: 0.1; got {given!r} ({error})"
        ) from None


def _distribution(space: Any) -> Any:
    if isinstance(space, list):
        return CategoricalDistribution([_stored(choice) for choice in space])
    whole = all(type(value) is int for key, value in space.items() if key != "log")
    return (IntDistribution if whole else FloatDistribution)(**space)


def _stored(choice: Any) -> Any:
    """Returns a choice as Optuna stores it, which takes no lists or mappings: as JSON."""
    return json.dumps(choice) if isinstance(choice, (list, dict)) else choice


def _meant(values: Mapping[str, Any], spaces: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a trial, with the choices that stand for stored texts."""
    meant = dict(values)
    for key, value in values.items():
        if isinstance(value, str):
            meant[key] = next((one for one in spaces[key] if _stored(one) == value), value)
    return meant


def _objectives(given: Any, recorded: Mapping[str, Any]) -> dict[str, bool]:
    """Maps the column of each objective to whether lower values are better."""
    columns = given if isinstance(given, list) else [given]
    if not columns or any(column not in list(recorded) for column in columns):
        raise FairbanditError(
            f"objective must be a metric that the run records, or a list of them, got {given!r}; "
            f"the run records {', '.join(recorded)}, and metrics={{COLUMN: NAME}} adds others"
        )
    names = {column: recorded[column]["name"] for column in columns}
    return {
        column: registry.lookup("metric", name).lower_is_better for column, name in names.items()
    }


@dataclass
class _Study:
    folder: Path
    words: Sequence[str]
    search: dict[str, Any]
    objectives: Mapping[str, bool]  # whether lower is better, by column
    asked: Mapping[str, Any]  # the identity of a run, the search and the objectives
    prune: bool

    def __post_init__(self) -> None:
        """Opens or creates the study; raises an error if its trials are not comparable."""
        directions: Any = ["minimize" if low else "maximize" for low in self.objectives.values()]
        try:
            self.study = optuna.create_study(
                study_name="fairbandit",
                storage=f"sqlite:///{self.folder / DATABASE}",
                directions=directions,
                load_if_exists=True,
            )
            asked = msgspec.convert(self.study.user_attrs.get("asked", self.asked), Plain)
            trials = self.study.get_trials()
            msgspec.convert(trials, list[SavedTrial], from_attributes=True)
        except (AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise FairbanditError(f"{DATABASE} is not a fairbandit study: {error}") from error
        if different := differences(asked, self.asked):
            raise FairbanditError(
                f"the trials in {short(self.folder)} cannot be compared with those asked for: "
                f"{'; '.join(different)}. folder=DIR or resume=false begins another study"
            )
        complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
        sizes = {len(trial.values or ()) for trial in complete} - {len(directions)}
        keys = {key for trial in trials for key in trial.params} - self.search.keys()
        saved = [direction.name.lower() for direction in self.study.directions]
        if saved != directions or sizes or keys:
            raise FairbanditError(f"{DATABASE} is not a fairbandit study: its trials differ")
        self.study.set_user_attr("asked", self.asked)

    def ended(self) -> list[FrozenTrial]:
        """Returns the trials that are complete, were stopped early, or failed."""
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if trial.state.is_finished()]

    def play(self) -> None:
        """Plays a new or an interrupted trial, and reports its outcome to the study.

        An error before the first complete trial is raised, since every trial may have it.
        """
        trial = self._ask()
        words = _overrides(_meant(trial.params, self.asked["search"]))
        folder = within(within(self.folder, "trials"), folder_name(words))
        watch = partial(self._watch, trial) if len(self.objectives) == 1 else None
        try:
            summary = execute(_composed([*self.words, *words]), folder, watch=watch)
            values = {column: summary["metrics"][column]["mean"] for column in self.objectives}
            if None in values.values():
                raise FairbanditError(f"{' or '.join(values)} of the run is not finite")
            self.study.tell(trial, list(values.values()))
            outcome = _listed(values)
        except optuna.TrialPruned:
            self.study.tell(trial, state=TrialState.PRUNED)
            outcome = "stopped early"
        except Exception as error:
            states = {ended.state for ended in self.ended()}
            if isinstance(error, StorageError) or TrialState.COMPLETE not in states:
                raise
            self.study.tell(trial, state=TrialState.FAIL)
            outcome = f"failed: {one_message(error)}"
        line = f"trial {trial.number}  {_listed(trial.params)}  {outcome}"
        console().print(line, soft_wrap=True, highlight=False)

    def _ask(self) -> Trial:
        for trial in self.study.get_trials(states=[TrialState.RUNNING]):  # it was interrupted
            if trial.params.keys() == self.search.keys():
                return Trial(self.study, trial._trial_id)
            self.study.tell(trial.number, state=TrialState.FAIL)  # its parameters are incomplete
        seeds = np.random.SeedSequence([self.asked["config"]["seed"], len(self.ended())])
        self.study.sampler = optuna.samplers.TPESampler(seed=int(seeds.generate_state(1)[0]))
        return self.study.ask(self.search)

    def _watch(self, trial: Trial, t: int, means: Mapping[str, float]) -> None:
        """Reports the metric so far, and stops the trial if it is worse than the median.

        Optuna's own median pruner compares the best report of each trial. Cumulative regret is
        always best in the first report, so that pruner would never stop a trial.
        """
        ((column, lower),) = self.objectives.items()
        rounds, value = self.asked["config"]["rounds"], means[column]
        every = max(1, rounds // (_REPORTS * CHUNK_ROUNDS)) * CHUNK_ROUNDS
        if t % every or t >= rounds or not isfinite(value):
            return
        trial.report(value, t)
        reports = [ended.intermediate_values for ended in self.ended()]
        others = [values[t] for values in reports if t in values]
        if self.prune and len(others) >= _STARTUP and t >= _WARM_UP * rounds:
            middle = median(others)
            if value > middle if lower else value < middle:
                raise optuna.TrialPruned

    def show(self) -> None:
        """Prints the best trials, with commands that play them again."""
        complete = sum(trial.state == TrialState.COMPLETE for trial in self.ended())
        best = {tuple(trial.values): trial for trial in self.study.best_trials}.values()
        title = "Best" if len(self.objectives) == 1 else "Not dominated"
        title += f" of {complete} complete trials, {len(self.ended())} in all"
        headers = ["trial", *self.objectives, *(key.rpartition(".")[2] for key in self.search)]
        rows = [map(_format, [each.number, *each.values, *each.params.values()]) for each in best]
        console().print(make_table(headers, rows, right=headers, title=title))
        words = [word for word in self.words if not word.startswith("seed=")]
        seed = f"seed={self.asked['config']['seed'] + 1}"
        again = dict[str, str]()
        for trial in best:
            own = _overrides(_meant(trial.params, self.asked["search"]))
            again[f"{trial.number}"] = shlex.join(["fairbandit", *words, *own, seed])
            line = named(f"trial {trial.number} with fresh replicas", again[f"{trial.number}"])
            console().print(line, soft_wrap=True)
        self.study.set_user_attr("again", again)  # for `fairbandit report`


def _listed(values: Mapping[str, Any]) -> str:
    return " ".join(f"{key.rpartition('.')[2]}={_format(value)}" for key, value in values.items())


def _format(value: Any) -> str:
    return brief(value) if isinstance(value, float) else str(value)
