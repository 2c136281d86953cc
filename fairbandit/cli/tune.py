"""`fairbandit tune`: the words of the command for `fairbandit.tune`, and the best trials."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from msgspec import Meta
from omegaconf.errors import OmegaConfBaseException

from fairbandit.cli.messages import one_message, short
from fairbandit.cli.parsers import quoted, tool
from fairbandit.cli.store import made_callbacks, plain_config, publish
from fairbandit.errors import FairbanditError, brief
from fairbandit.files.files import fresh
from fairbandit.policy.build import config_folders
from fairbandit.runs.folder import folder_name
from fairbandit.runs.sheets import console, make_table, named
from fairbandit.runs.tuning import tune as tuned


@tool()
def tune(
    *words: str,
    search: dict[str, Any],
    objective: str | list[str] = "fair_regret",
    trials: Annotated[int, Meta(ge=1)] = 50,
    prune: bool = True,
    folder: str | None = None,
    resume: bool = True,
) -> None:
    """Searches for the values of some keys that optimise a metric, with Optuna.

    Repeating the command continues the study up to its number of trials. Keys beside these are set
    for every run:

      search={KEY: SPACE, ...}   the keys that vary. SPACE is a list of choices, or
                                 {low: 0.1, high: 10}, optionally with log: true or step: 0.1;
                                 integers give integers
      objective=METRIC           a metric that the run records, or a list of them [fair_regret]
      trials=N                   the total number of trials [50]
      prune=false                plays every trial to its end, even if it is worse than the median;
                                 callbacks need this
      folder=DIR                 the folder of the study [outputs/studies/NAME, by the other words]
      resume=false               begins a new study

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

    def say(trial: Any) -> None:
        outcome = {"PRUNED": "stopped early", "FAIL": f"failed: {trial.user_attrs.get('error')}"}
        values = " ".join(
            f"{column}={_format(value)}"
            for column, value in zip(columns, trial.values or (), strict=False)
        )
        params = [f"{key.rpartition('.')[2]}={_format(v)}" for key, v in trial.params.items()]
        text = f"trial {trial.number}  {' '.join(params)}  {outcome.get(trial.state.name, values)}"
        console().print(text, soft_wrap=True, highlight=False)

    options: Any = {"objective": objective, "trials": trials, "prune": prune, "after": say}
    config = _composed(words)
    options["callbacks"] = made_callbacks(config.pop("callbacks"))
    study = tuned(config, search, place, **options)
    ended = [trial.state.name for trial in study.trials if trial.state.is_finished()]
    best = {tuple(trial.values): trial for trial in study.best_trials}.values()
    title = "Best" if len(columns) == 1 else "Not dominated"
    title += f" of {ended.count('COMPLETE')} complete trials, {len(ended)} in all"
    headers = ["trial", *columns, *(key.rpartition(".")[2] for key in search)]
    rows = [map(_format, [trial.number, *trial.values, *trial.params.values()]) for trial in best]
    console().print(make_table(headers, rows, right=headers, title=title))
    fixed = [word for word in words if not word.startswith("seed=")]
    seed = f"seed={study.user_attrs['asked']['config']['seed'] + 1}"
    for trial in best:
        again = shlex.join(["fairbandit", *fixed, *_overrides(trial.params), seed])
        line = named(f"trial {trial.number} with fresh replicas", again)
        console().print(line, soft_wrap=True)


def _composed(words: Sequence[str]) -> dict[str, Any]:
    try:
        conf, *further = map(str, config_folders())
        path = f"hydra.searchpath={[f'file://{folder}' for folder in further]}"
        with initialize_config_dir(conf, version_base="1.3"):
            config = plain_config(compose("config", overrides=[*map(quoted, words), path]))
    except (HydraException, OmegaConfBaseException) as error:
        raise FairbanditError(one_message(error)) from None
    return {key: value for key, value in config.items() if key != "figures"}


def _overrides(values: Mapping[str, Any]) -> list[str]:
    words = []
    for key, value in values.items():
        bare = isinstance(value, str) and value.isidentifier()  # other texts need quotes
        words.append(f"{key}={value if bare else json.dumps(value, ensure_ascii=False)}")
    return words


def _format(value: Any) -> str:
    return brief(value) if isinstance(value, float) else str(value)
