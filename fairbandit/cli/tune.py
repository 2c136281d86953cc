"""`fairbandit tune`: the words of the command for `fairbandit.tune`, and the best trials."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from msgspec import Meta
from omegaconf.errors import OmegaConfBaseException

from fairbandit.cli.messages import one_message, short
from fairbandit.cli.parsers import quoted, tool
from fairbandit.cli.store import plain_config, publish
from fairbandit.errors import FairbanditError, brief
from fairbandit.files.files import fresh
from fairbandit.policy.build import config_folders
from fairbandit.runs.folder import folder_name
from fairbandit.runs.sheets import console, make_table, named
from fairbandit.runs.tuning import meant
from fairbandit.runs.tuning import tune as tuned


@tool()
def tune(
    *words: str,
    search: Any = None,
    objective: str | list[str] = "fair_regret",
    trials: Annotated[int, Meta(ge=1)] = 50,
    prune: bool = True,
    folder: str | None = None,
    resume: bool = True,
) -> None:
    """Searches for the values of some keys that optimise a metric.

    Optuna chooses the values of each trial from earlier trials. Repeating the command continues the
    study up to its number of trials.

    words:
      search={KEY: SPACE, ...}   the keys that vary. SPACE is a list of choices, which may be lists,
                                 or {low: 0.1, high: 10}, optionally with log: true or step: 0.1;
                                 integers give integers
      objective=METRIC           a metric that the run records, or a list of them [fair_regret]
      trials=N                   the total number of trials [50]
      prune=false                plays every trial to its end, even if it is worse than the median
      folder=DIR                 the folder of the study [outputs/studies/NAME, by the other words]
      resume=false               begins a new study
      KEY=VALUE                  any other key is set for every run

    example:
      fairbandit tune policy=oful rounds=1000 replicas=100 trials=30 objective=standard_regret \\
          'search={policy.estimator.exploration: {low: 0.001, high: 1, log: true}}'
    """
    publish()
    columns = [objective] if isinstance(objective, str) else objective
    name = folder_name([*words, f"search={json.dumps(search)}", f"objective={','.join(columns)}"])
    place = Path(folder or f"outputs/studies/{name}").absolute()
    place = place if resume else fresh(place)
    console().print(named("study", short(place)), soft_wrap=True)
    config, after = partial(_composed, words), partial(_say, columns)
    options: Any = {"objective": objective, "trials": trials, "prune": prune, "after": after}
    _show(tuned(config, search, place, **options), words, search)


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
