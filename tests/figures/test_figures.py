"""Each figure: its axes, labels, lines and error bars, and data drawn equal to data saved."""

from typing import Any

import numpy as np
import pytest

from fairbandit.errors import FairbanditError
from fairbandit.figures import draw
from fairbandit.figures.compose import compose, compose_metric, general
from fairbandit.figures.draw import _slugs
from fairbandit.figures.style import group_name, looks
from fairbandit.results import Scene
from tests.figures.synthetic import crossed

NAMES = ["Uniform random", "Greedy", "Fair-Greedy"]


def lines(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.get_lines()}


def check_regret(axes: Any, scene: Scene, kind: str) -> None:
    label = f"{kind} pseudo-regret\n(mean ± 1 std)"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", label)
    drawn = lines(axes)
    assert list(drawn) == NAMES
    assert len(axes.collections) == len(NAMES)
    for run, line, band in zip(scene.runs, drawn.values(), axes.collections, strict=True):
        curve = run.curves[f"{kind}_regret"]
        np.testing.assert_array_equal(line.get_xdata(), curve.rounds)
        np.testing.assert_array_equal(line.get_ydata(), curve.mean)
        edges = band.get_paths()[0].vertices
        at_end = edges[edges[:, 0] == curve.rounds[-1], 1]
        ends = max(0, curve.mean[-1] - curve.std[-1]), curve.mean[-1] + curve.std[-1]
        assert (at_end.min(), at_end.max()) == pytest.approx(ends)


def check_rewards(axes: Any, scene: Scene, which: str, label: str) -> None:
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("reward", label)
    drawn = lines(axes)
    assert list(drawn) == [group_name(group) for group in scene.groups]
    for rewards, line in zip(scene.rewards, drawn.values(), strict=True):
        assert rewards is not None
        np.testing.assert_array_equal(line.get_xdata(), rewards.values)
        np.testing.assert_array_equal(line.get_ydata(), getattr(rewards, which))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(drawn)


def check_bars(axes: Any, scene: Scene, quantity: str, scale: float) -> None:
    bars = [box for box in axes.containers if box.get_label() in NAMES]
    errors = [bar.errorbar for bar in bars]
    assert [bar.get_label() for bar in bars] == NAMES
    for run, bar, error in zip(scene.runs, bars, errors, strict=True):
        mean, std = run.by_group(quantity)
        heights = [patch.get_height() for patch in bar]
        np.testing.assert_allclose(heights, mean * scale)
        (segments,) = (one.get_segments() for one in error[2])
        spans = [float(np.ptp(segment[:, 1])) for segment in segments]
        np.testing.assert_allclose(spans, 2 * std * scale, atol=1e-9)
    assert [text.get_text() for text in axes.get_xticklabels()] == [
        group_name(group) for group in scene.groups
    ]


def check_points(axes: Any, scene: Scene, quantity: str) -> None:
    """Points with bars of one std, which end at 0."""
    assert [point.get_label() for point in axes.containers] == NAMES
    for run, (marker, _, (bars,)) in zip(scene.runs, axes.containers, strict=True):
        mean, std = run.by_group(quantity)
        np.testing.assert_array_equal(marker.get_ydata(), mean)
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, np.stack([np.maximum(mean - std, 0), mean + std], 1))
    assert [text.get_text() for text in axes.get_xticklabels()] == [
        group_name(group) for group in scene.groups
    ]


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_overview(scene):
    figure = compose("overview", scene)
    density, standard, fair = figure.axes
    check_rewards(density, scene, "density", "density")
    check_regret(standard, scene, "standard")
    check_regret(fair, scene, "fair")
    assert legend(figure) == NAMES


def test_selection(mixed_scene):
    figure = compose("selection", mixed_scene)
    share, standard, fair = figure.axes
    assert share.get_ylabel() == "selected candidates [%]"
    check_bars(share, mixed_scene, "selection_rate", 100)
    line = lines(share)["1/K"]
    assert list(line.get_ydata()) == pytest.approx([20, 20])  # pools of five
    check_regret(standard, mixed_scene, "standard")
    check_regret(fair, mixed_scene, "fair")
    assert legend(figure) == NAMES


def test_distributions(scene):
    figure = compose("distributions", scene)
    density, cdf, standard, fair = figure.axes
    check_rewards(density, scene, "density", "density")
    check_rewards(cdf, scene, "cdf", "CDF")
    check_regret(standard, scene, "standard")
    check_regret(fair, scene, "fair")
    assert legend(figure) == NAMES


def test_counts(mixed_scene):
    figure = compose("counts", mixed_scene)
    density, count, standard, fair = figure.axes
    check_rewards(density, mixed_scene, "density", "density")
    assert (count.get_ylabel(), count.get_yscale()) == ("selected candidates", "log")
    check_points(count, mixed_scene, "selected")
    assert count.get_ylim()[0] > 0
    check_regret(standard, mixed_scene, "standard")
    check_regret(fair, mixed_scene, "fair")
    assert legend(figure) == NAMES


def test_price(scene):
    figure = compose("price", scene)
    (axes,) = figure.axes
    assert axes.get_xlabel() == "standard pseudo-regret at T = 400"
    assert axes.get_ylabel() == "fair pseudo-regret at T = 400"
    assert len(axes.containers) == len(NAMES)
    for run, point in zip(scene.runs, axes.containers, strict=True):
        x, y = run.metrics["standard_regret"], run.metrics["fair_regret"]
        marker, _, (across, along) = point
        assert (marker.get_xdata()[0], marker.get_ydata()[0]) == (x["mean"], y["mean"])
        for bar, at, spread in ((across, 0, x), (along, 1, y)):
            ends = max(0, spread["mean"] - spread["std"]), spread["mean"] + spread["std"]
            assert bar.get_segments()[0][:, at] == pytest.approx(ends)
    assert legend(figure) == NAMES


def test_the_price_shows_no_more_than_its_points_and_bars():
    (axes,) = compose("price", crossed(["greedy"], noise=[4.0, 5.0, 6.0])).axes
    ends = [9 * 0.9 * number + 40 for number in range(3)]
    low, high = axes.get_xlim()
    assert 30 < low < min(ends) * 8 / 9 < max(ends) * 10 / 9 < high < 70


def test_a_band_of_a_regret_ends_at_0():
    (axes,) = compose_metric("fair_regret", crossed(["greedy", "oful"])).axes
    for band in axes.collections:
        edges = np.asarray(band.get_paths()[0].vertices)
        assert edges[:, 1].min() == 0  # the std exceeds the mean


def test_a_group_that_is_never_selected_has_its_point_at_0():
    scene = crossed(["greedy", "oful"])
    scene.runs[0].runs[0].summary["selected"]["b"] = {"mean": 0.0, "std": 0.0, "n": 3}
    axes = compose("counts", scene).axes[1]
    assert axes.get_yscale() == "symlog"
    assert [text.get_text() for text in axes.get_yticklabels()][:4] == ["0", "1", "2", "5"]
    assert axes.containers[0][0].get_ydata()[1] == 0


def test_a_metric_by_its_name(scene):
    (axes,) = compose_metric("fair_regret", scene).axes
    check_regret(axes, scene, "fair")
    message = "no run has the metric 'nope'; the metrics are standard_regret, fair_regret"
    with pytest.raises(FairbanditError, match=message):
        compose_metric("nope", scene)


def test_a_policy_looks_the_same_in_every_figure(scene, mixed_scene):
    colours = set()
    for name, one in [("overview", scene), ("counts", mixed_scene)]:
        line = lines(compose(name, one).axes[-1])["Fair-Greedy"]
        colours.add((line.get_color(), line.get_linestyle(), line.get_marker()))
    assert len(colours) == 1


def test_looks_are_told_apart_and_stable():
    names = [f"mine_{number}" for number in range(8)]
    made = looks([*names, "oful", "oful, seed=1"])
    assert len({(look.colour, str(look.dashes), look.marker) for look in made.values()}) >= 9
    assert made == looks([*names, "oful", "oful, seed=1"])
    assert made["oful, seed=1"].name == "OFUL, seed=1"
    assert len(looks(str(number) for number in range(30))) == 30


def test_without_true_rewards_sampled_ones_are_drawn(scene):
    object.__setattr__(scene, "rewards", (None,) * 4)
    for axes, which in zip(compose("distributions", scene).axes, ("density", "cdf"), strict=False):
        label = axes.get_xlabel().replace("\n", " ")
        assert label == "sampled reward of the picks of Uniform random"
        for rewards, line in zip(scene.sampled_rewards, axes.get_lines(), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), getattr(rewards, which))
    others = scene.only(["greedy", "fair_greedy"])
    object.__setattr__(others, "rewards", (None,) * 4)
    assert compose("overview", others).axes[0].get_xlabel() == "sampled reward of all picks"


@pytest.mark.long
def test_files_are_the_same_bytes_each_time(simulated, scene, tmp_path):
    drawn = draw([simulated], tmp_path / "one")
    again = draw([simulated], tmp_path / "two")
    assert [one.figure for one in drawn] == general(scene)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(f"{name}.{end}" for name in general(scene) for end in ("png", "pdf"))
    for one, two in zip(drawn, again, strict=True):
        for first, second in zip(one.files, two.files, strict=True):
            assert first.read_bytes() == second.read_bytes()
    assert drawn[0].files[0].read_bytes().startswith(b"\x89PNG")
    assert drawn[0].files[1].read_bytes().startswith(b"%PDF")


def test_mixed_environments_are_drawn_apart(simulated, mixed, tmp_path):
    drawn = draw([simulated, mixed], tmp_path, {"price": None})
    assert [one.scene for one in drawn] == ["simulation", "table"]
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "simulation-price.png",
        "table-price.png",
    ]


def test_files_of_environments_of_one_name_are_different():
    scenes = [Scene("table", ()), Scene("table", ()), Scene("x" * 300, ())]
    assert _slugs(scenes) == ["table", "table-2", "x" * 100]


def test_what_cannot_be_drawn(simulated, tmp_path):
    with pytest.raises(FairbanditError, match="unknown figure 'nope'; the figures are overview"):
        draw([simulated], tmp_path, {"nope": None})
    with pytest.raises(FairbanditError, match="no finished run below"):
        draw([tmp_path], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FairbanditError, match="cannot write figures to"):
        draw([simulated], tmp_path / "file" / "figures", {"price": None})
