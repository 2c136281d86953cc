"""`fairbandit tune`: the words of the command for `fairbandit.tune`, and the best trials."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from fairbandit.cli.messages import one_message, short
from fairbandit.cli.parsers import quoted, read_words
from fairbandit.cli.store import plain_config, publish
from fairbandit.errors import FairbanditError, brief, did_you_mean, unknown
from fairbandit.files.files import fresh
from fairbandit.policy.build import config_folders
from fairbandit.runs.folder import folder_name
from fairbandit.runs.sheets import console, make_table, named
from fairbandit.runs.tuning import meant
from fairbandit.runs.tuning import tune as tuned

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
  KEY=VALUE                  any other key is set for every run

example:
  fairbandit tune policy=oful rounds=1000 replicas=100 trials=30 objective=standard_regret \\
      'search={policy.estimator.exploration: {low: 0.001, high: 1, log: true}}'"""

_UNNAMED = {"trials": 50, "prune": True, "resume": True, "folder": None}
_OWN = {"search": None, "objective": "fair_regret", **_UNNAMED}


def tune(words: Sequence[str]) -> None:
    """Plays the remaining trials of a study, and shows the best."""
    words = words or ["--help"]
    study_words = [word for word in words if word.partition("=")[0] in _OWN]
    others = [word for word in words if word not in study_words]
    for key in (word.partition("=")[0] for word in others):
        if "." not in key and did_you_mean(key, _OWN):
            raise unknown("key", key, _OWN)
    options = [word for word in others if word.startswith("-")]
    given = _OWN | read_words("tune", _HELP, [*study_words, *options]).settings
    for key, kind in (("trials", int), ("prune", bool), ("resume", bool)):
        if type(given[key]) is not kind or given["trials"] < 1:
            wanted = "1, 2, …" if kind is int else "true or false"
            raise FairbanditError(f"{key} must be {wanted}, got {given[key]!r}")
    publish()
    name = folder_name(word for word in words if word.partition("=")[0] not in _UNNAMED)
    folder = Path(str(given["folder"] or f"outputs/studies/{name}")).absolute()
    folder = folder if given["resume"] else fresh(folder)
    console().print(named("study", short(folder)), soft_wrap=True)
    asked = given["objective"]
    columns = [asked] if isinstance(asked, str) else asked
    choice = {key: given[key] for key in ("objective", "trials", "prune")}
    config = partial(_composed, others)
    study = tuned(config, given["search"], folder, after=partial(_say, columns), **choice)
    _show(study, others, given["search"])


def _composed(words: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        own, *others = map(str, config_folders())
        search = [f"hydra.searchpath={[f'file://{folder}' for folder in others]}"]
        overrides = [*map(quoted, [*words, *_overrides(values)]), *search]
        with initialize_config_dir(own, version_base="1.3"):
            config = plain_config(compose("config", overrides=overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise FairbanditError(one_message(error)) from None
    return {key: value for key, value in config.items() if key not in ("figures", "callbacks")}


def _overrides(values: Mapping[str, Any]) -> list[str]:
    words = []
    for key, value in values.items():
        bare = isinstance(value, str) and value.isidentifier()  # other texts need quotes
        words.append(f"{key}={value if bare else json.dumps(value, ensure_ascii=False)}")
    return words


def _say(columns: Sequence[str], trial: Any) -> None:
    outcome = {"PRUNED": "stopped early", "FAIL": f"failed: {trial.user_attrs.get('error')}"}
    pairs = zip(columns, trial.values or (), strict=False)
    values = " ".join(f"{column}={_format(value)}" for column, value in pairs)
    text = outcome.get(trial.state.name, values)
    params = " ".join(f"{key.rpartition('.')[2]}={_format(v)}" for key, v in trial.params.items())
    console().print(f"trial {trial.number}  {params}  {text}", soft_wrap=True, highlight=False)


def _show(study: Any, words: Sequence[str], search: Mapping[str, Any]) -> None:
    asked = study.user_attrs["asked"]
    ended = [one for one in study.trials if one.state.is_finished()]
    complete = sum(one.state.name == "COMPLETE" for one in ended)
    best = {tuple(trial.values): trial for trial in study.best_trials}.values()
    title = "Best" if len(asked["objective"]) == 1 else "Not dominated"
    title += f" of {complete} complete trials, {len(ended)} in all"
    headers = ["trial", *asked["objective"], *(key.rpartition(".")[2] for key in search)]
    rows = [map(_format, [one.number, *one.values, *one.params.values()]) for one in best]
    console().print(make_table(headers, rows, right=headers, title=title))
    words = [word for word in words if not word.startswith("seed=")]
    for trial in best:
        values = _overrides(meant(trial.params, search))
        seed = f"seed={asked['config']['seed'] + 1}"
        again = shlex.join(["fairbandit", *words, *values, seed])
        line = named(f"trial {trial.number} with fresh replicas", again)
        console().print(line, soft_wrap=True)


def _format(value: Any) -> str:
    return brief(value) if isinstance(value, float) else str(value)
