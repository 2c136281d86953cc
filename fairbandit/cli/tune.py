"""`fairbandit tune`: reads what a study searches for, and has it played."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairbandit import registry
from fairbandit.building import build
from fairbandit.cli.names import job_name
from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.cli.store import publish, register_resolvers
from fairbandit.errors import FairbanditError
from fairbandit.files import fresh
from fairbandit.run.settings import settings

try:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    from fairbandit.cli.study import Study, composed, overrides
except ModuleNotFoundError as error:
    if not str(error.name).startswith("optuna"):
        raise
    raise FairbanditError(
        "tuning needs Optuna; pip install 'fairbandit[optuna]' installs it (in a checkout, "
        "pip install -e '.[optuna]')"
    ) from None

_HELP = """\
Searches for the values of some keys with which a metric becomes best. Each trial plays the run that
the other words describe, with values that Optuna's TPE sampler chooses by the trials before. The
same command continues a study and completes its number of trials. Given in several terminals at
once, it plays trials of one study side by side.

words:
  search={KEY: SPACE, ...}   what varies. SPACE is {low: 0.1, high: 10}, with log: true or step: 0.1
                             if wished, or a list of choices; whole numbers give whole numbers
  objective=METRIC           fair_regret, standard_regret or a column of metrics; a list of them
                             looks for trials that none is better than in all [fair_regret]
  trials=N                   how many trials the study has in the end [50]
  prune=false                plays every trial to its end. Otherwise a trial is stopped if, after a
                             quarter of the rounds or later, its objective is worse than the median
                             of at least five others at that round. Optuna cannot prune with
                             several objectives
  folder=DIR                 where the study is kept [outputs/studies/NAME, by the other words]
  KEY=VALUE                  all else is as for a run; resume=false begins a new study"""

_EXAMPLES = """\
example:
  fairbandit tune policy=oful rounds=1000 replicas=100 trials=30 objective=standard_regret \\
      'search={policy.estimator.exploration: {low: 0.001, high: 1, log: true}}'"""

_OWN = {"search": None, "objective": "fair_regret", "trials": 50, "prune": True, "folder": None}
_UNNAMED = ("trials", "prune", "folder", "resume")  # words that leave a study the same


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
    words = parser.parse_args(words).words
    own = [word for word in words if word.partition("=")[0] in _OWN]
    others = [word for word in words if word not in own]
    given = _OWN | read_parameters(own, "tune")
    for key, kind, wanted in (("trials", int, "1, 2, …"), ("prune", bool, "true or false")):
        if type(given[key]) is not kind or given["trials"] < 1:
            raise FairbanditError(f"{key} must be {wanted}, got {given[key]!r}")
    publish()
    register_resolvers()
    search = _search(given["search"])
    config = composed([*others, *overrides({key: _first(one) for key, one in search.items()})])
    environment: Any = build(config["environment"])
    objectives = _objectives(given["objective"], config, environment)
    name = job_name(word for word in words if word.partition("=")[0] not in _UNNAMED)
    folder = Path(given["folder"] or f"outputs/studies/{name}").absolute()
    Study(
        folder if config["resume"] else fresh(folder),
        [word for word in others if word.partition("=")[0] != "resume"],
        search,
        objectives,
        seed=config["seed"],
        rounds=config["rounds"] or environment.rounds,
        prune=given["prune"],
    ).play(given["trials"])


def _search(given: Any) -> dict[str, Any]:
    """Reads the search space: the distribution of each key."""
    if not isinstance(given, dict) or not given:
        raise FairbanditError(
            "search must map keys to their values, as in 'search={policy.estimator.regularization: "
            f"{{low: 1e-3, high: 10, log: true}}, policy.rank.bandwidth: [0.1, 1]}}'; got {given!r}"
        )
    found = {}
    for key, space in given.items():
        try:
            found[key] = _distribution(space)
        except (AttributeError, TypeError, ValueError, UserWarning) as error:
            raise FairbanditError(
                f"search: {key} is {space!r}; expected {{low: 0.1, high: 10}}, with log: true or "
                f"step: 0.1 if wished, or a list of numbers, texts or booleans ({error})"
            ) from None
    return found


def _distribution(space: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of choices that are lists, and of ranges that steps miss
        if isinstance(space, list):
            return CategoricalDistribution(space)
        whole = all(type(value) is int for key, value in space.items() if key != "log")
        return (IntDistribution if whole else FloatDistribution)(**space)


def _first(distribution: Any) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[0]
    return distribution.low


def _objectives(given: Any, config: Mapping[str, Any], environment: Any) -> dict[str, bool]:
    """Reads the objectives: whether lower is better, by column."""
    recorded = settings(config).metrics
    metrics = {name: registry.lookup("metric", spec["name"]) for name, spec in recorded.items()}
    columns = given if isinstance(given, list) else [given]
    if not columns or not all(isinstance(column, str) and column in metrics for column in columns):
        raise FairbanditError(
            f"objective must be a metric that the run records, or a list of them, got {given!r}; "
            f"it records {', '.join(metrics)}, and metrics={{COLUMN: NAME}} adds others"
        )
    if environment.truth is None and any(metrics[column].needs_truth for column in columns):
        known = [column for column, metric in metrics.items() if not metric.needs_truth]
        raise FairbanditError(
            f"objective: {', '.join(columns)} cannot be known, because the environment "
            f"{environment.part_name!r} has no truth; metrics of this run that need none: "
            f"{', '.join(known) or 'none; metrics={COLUMN: NAME} records some'}"
        )
    return {column: metrics[column].lower_is_better for column in columns}
