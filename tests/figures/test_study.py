"""The figure of a study: each objective by trial and by parameter, and the best trials marked."""

from typing import Any

import numpy as np

from fairbandit.figures.study import Trial, Trials, compose_study


def points(axes: Any, label: str) -> list[list[float]]:
    (found,) = [one for one in axes.collections if one.get_label().startswith(label)]
    return np.asarray(found.get_offsets()).tolist()


TRIALS = [
    Trial(0, (3.0, 1.0), {"policy.estimator.noise": 0.1, "policy": "oful"}),
    Trial(2, (4.0, 0.5), {"policy.estimator.noise": 10.0, "policy": "greedy"}),
    Trial(3, (2.0, 0.0), {"policy.estimator.noise": 1.0, "policy": "oful"}),
]


def test_one_objective():
    trials = [Trial(one.number, one.values[:1], one.parameters) for one in TRIALS]
    figure = compose_study(
        Trials({"fair_regret": True}, trials, [3], logarithmic={"policy.estimator.noise"})
    )
    history, noise, policy = figure.axes
    assert points(history, "trial") == [[0, 3], [2, 4], [3, 2]]
    assert points(history, "best") == [[3, 2]]
    (line,) = history.get_lines()
    assert np.asarray(line.get_ydata()).tolist() == [3, 3, 2]
    assert (history.get_xlabel(), history.get_ylabel()) == ("trial", "fair regret")
    assert (noise.get_xlabel(), noise.get_xscale()) == ("estimator.noise", "log")
    assert points(noise, "trial") == [[0.1, 3], [10, 4], [1, 2]]
    assert [text.get_text() for text in policy.get_xticklabels()] == ["greedy", "oful"]
    assert points(policy, "trial") == [[1, 3], [0, 4], [1, 2]]


def test_two_objectives_of_which_more_of_the_second_is_better():
    figure = compose_study(Trials({"fair_regret": True, "share": False}, TRIALS, [0, 3]))
    assert len(figure.axes) == 2 * 3 + 1
    (line,) = figure.axes[3].get_lines()
    assert np.asarray(line.get_ydata()).tolist() == [1, 1, 1]
    against = figure.axes[-1]
    assert points(against, "trial") == [[3, 1], [4, 0.5], [2, 0]]
    assert points(against, "not dominated") == [[3, 1], [2, 0]]
    assert (against.get_xlabel(), against.get_ylabel()) == ("fair regret", "share")


def test_one_trial_without_parameters():
    (axes,) = compose_study(Trials({"x": True}, [Trial(0, (1.0,), {})], [0])).axes
    assert points(axes, "best") == [[0, 1]]
