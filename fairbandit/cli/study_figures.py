"""The figures of a study, drawn by Optuna."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState

from fairbandit.errors import FairbanditError
from fairbandit.files import written_aside


def draw_study(study: optuna.Study, objectives: list[str], out: Path) -> list[str]:
    """Draws what the complete trials of a study allow, as PNG and PDF.

    Args:
        study: the study.
        objectives: the names of its objectives.
        out: the folder of the files.

    Returns:
        The names of the figures.

    Raises:
        FairbanditError: the folder cannot be written to.
    """
    os.environ["MPLBACKEND"] = "agg"  # only files are written, whatever draws windows
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    names = []
    with mpl.rc_context(), warnings.catch_warnings():  # Optuna sets a style
        warnings.filterwarnings("ignore", "Attempting to set identical")  # of a single value
        for name, axes in _plots(study, objectives):
            figure = np.ravel(axes)[0].figure
            try:
                out.mkdir(exist_ok=True)
                for kind in ("pdf", "png"):
                    with written_aside(out / f"{name}.{kind}") as file:
                        figure.savefig(file, format=kind, bbox_inches="tight")
            except OSError as error:
                raise FairbanditError(f"cannot write figures to {out}: {error.strerror}") from error
            plt.close(figure)
            names.append(name)
    return names


def _plots(study: optuna.Study, objectives: list[str]) -> Iterator[tuple[str, Any]]:
    """Yields the name and the axes of each figure."""
    plots: Any = import_module("optuna.visualization.matplotlib")  # after the backend is chosen

    complete = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    if not complete:
        return
    for index, column in enumerate(objectives):
        several = len(objectives) > 1
        about: dict[str, Any] = {
            "target": (lambda trial, index=index: trial.values[index]) if several else None,
            "target_name": column,
        }
        suffix = f"-{column}" if several else ""
        yield f"history{suffix}", plots.plot_optimization_history(study, **about)
        panels = np.ravel(plots.plot_slice(study, **about))
        panels[0].figure.set_size_inches(3 + 2.5 * len(panels), 4)
        for axes in panels:
            axes.set_xlabel(re.sub(r"^policy[./]", "", axes.get_xlabel()))
        yield f"slice{suffix}", panels
    varied = len(complete[0].params) > 1 and len({trial.values[0] for trial in complete}) > 1
    if varied and len(objectives) == 1:  # of several, Optuna takes low values for the good ones
        yield "importances", plots.plot_param_importances(study, target_name=objectives[0])
    if len(objectives) in (2, 3):
        yield "front", plots.plot_pareto_front(study, target_names=objectives)
    if any(trial.intermediate_values for trial in complete):
        axes = plots.plot_intermediate_values(study)
        axes.set(title="Running Curves of Trials", xlabel="Round", ylabel=objectives[0])
        axes.get_legend().remove()  # it names every trial
        yield "curves", axes
