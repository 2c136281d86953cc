"""The report of a study of `fairbandit tune`: its search, and the best trials."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import Meta

from fairbandit.errors import FairbanditError, brief
from fairbandit.files.formats import Plain, mapping
from fairbandit.notices import listed
from fairbandit.report.page import Report
from fairbandit.runs.naming import short_names, shown
from fairbandit.runs.sheets import Sheet, metric_header

DATABASE = "study.db"
"""The file of a study in its folder."""


class SavedTrial(msgspec.Struct):
    """The parts of `optuna.trial.FrozenTrial` that are read."""

    params: dict[str, str | float | bool | None]
    values: list[Annotated[float, Meta(ge=-1e300, le=1e300)]] | None
    intermediate_values: dict[int, float]


_ASKED = mapping(search=dict[str, list[Any] | Plain], objective=str | list[str])

_ENDS = {"COMPLETE": "complete", "PRUNED": "stopped early", "FAIL": "failed"}

_STOPPED = """\
Trials were stopped early where they were worse than the median of the others at the same round."""

_LUCK = """\
All trials have one seed, and the best of many is also the luckiest: before you trust it, play it
again with another seed. The complete trials are the runs below."""


def of_study(path: Path) -> Report:
    """Reports the search of a study from its database, which is opened for reading alone.

    Raises:
        FairbanditError: Optuna is not installed, or the file is not a study of ours.
    """
    try:
        import optuna
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise FairbanditError("a study needs Optuna; pip install 'fairbandit[optuna]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    errors = AssertionError, LookupError, RuntimeError, TypeError, ValueError, SQLAlchemyError
    try:
        storage = f"sqlite:///file:{quote(str(path.absolute()))}?mode=ro&uri=true"
        return _report(path, optuna.load_study(study_name="fairbandit", storage=storage))
    except (*errors, optuna.exceptions.OptunaError) as error:
        reason = str(error).partition("\n")[0]
        raise FairbanditError(f"{path} is not a study of fairbandit tune: {reason}") from error


def _report(path: Path, study: Any) -> Report:
    asked: Any = msgspec.convert(study.user_attrs["asked"], _ASKED)
    trials = [trial for trial in study.get_trials() if trial.state.is_finished()]
    msgspec.convert(trials, list[SavedTrial], from_attributes=True)
    search, objective = asked["search"], asked["objective"]
    columns = objective if isinstance(objective, list) else [objective]
    names = [
        metric_header(column, {"lower_is_better": direction.name == "MINIMIZE"})
        for column, direction in zip(columns, study.directions, strict=True)
    ]
    keys = short_names([*search])
    best = [
        [f"{one.number}", *map(brief, one.values), *(_text(one.params.get(key)) for key in keys)]
        for one in study.best_trials
    ]
    states = Counter(trial.state.name for trial in trials)
    again = msgspec.convert(study.user_attrs.get("again", {}), dict[str, str])
    page: list[str | Sheet] = [
        "## Search",
        Sheet(("searched key", "values"), [(key, shown(search[key])) for key in keys], names=2),
        f"Trials: {', '.join(f'{number} {_ENDS[name]}' for name, number in states.items())}.",
        f"## The best {'trial' if len(names) == 1 else 'trials: none beats another in all'}",
        Sheet(("trial", *names, *keys.values()), best),
        *([_STOPPED] if "PRUNED" in states else []),
        _LUCK,
        *(f"Trial {n} with fresh replicas: {again[n]}" for n, *_ in best if n in again),
    ]
    question = f"Which {listed([*keys.values()], 6)} gives the best {' and '.join(names)}?"
    return Report.of(f"Study {path.absolute().parent.name}", question, page)


def _text(value: Any) -> str:
    return f"{value:.4g}" if type(value) is float else shown(value)
