"""Each figure: its axes, labels, lines and error bars, and data drawn equal to data saved."""

from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.image import imread

import fairbandit
from fairbandit.cli.figures import figures
from fairbandit.errors import FairbanditError
from fairbandit.figures import draw
from fairbandit.figures.draw import compose, figure, general
from fairbandit.figures.layout import INTERVALS, Options
from fairbandit.figures.style import group_name
from fairbandit.metrics import REGRETS
from fairbandit.runs.intervals import interval
from fairbandit.runs.scenes import Scene
from tests.environments.data import people
from tests.figures.conftest import POLICIES
from tests.figures.placing import check_texts
from tests.figures.synthetic import SIX, around, crossed, saved, scene_of

NAMES = ["Uniform random", "Greedy", "Fair-Greedy"]


def lines(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.get_lines()}


def check_regret(axes: Any, drawn: Scene, kind: str, spread: str = "mean, 10 to 90 %") -> None:
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", f"{kind} regret\n({spread})")
    assert list(lines(axes)) == NAMES
    found = zip(drawn.runs, lines(axes).values(), axes.collections, strict=True)
    for run, line, band in found:
        curve = run.curves[f"{kind}_regret", None]
        mean, std = curve.values.mean(0), curve.values.std(0, ddof=1)
        np.testing.assert_allclose(line.get_data(), (curve.rounds, mean))
        ends: Any = mean - std, mean + std
        if spread == "mean, 95 % interval":
            ends = interval(len(curve.values), mean, std)
        elif spread == "mean, 10 to 90 %":
            ends = np.quantile(curve.values[:, -1], [0.1, 0.9])[:, None]
        edges = band.get_paths()[0].vertices
        at_end = edges[edges[:, 0] == curve.rounds[-1], 1]
        assert (at_end.min(), at_end.max()) == pytest.approx([end[-1] for end in ends])
    assert axes.get_ylim()[0] == 0


def check_rewards(axes: Any, drawn: Scene, which: str, label: str) -> None:
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("reward", label)
    assert list(lines(axes)) == [group_name(group) for group in drawn.groups]
    for rewards, line in zip(drawn.rewards, lines(axes).values(), strict=True):
        assert rewards is not None
        np.testing.assert_array_equal(line.get_data(), (rewards["value"], rewards[which]))


def check_groups(axes: Any, drawn: Scene, quantity: str, scale: float) -> None:
    """Bars or points with error bars, by group."""
    found = [one for one in axes.containers if one.get_label() in NAMES]
    assert [one.get_label() for one in found] == NAMES
    for run, one in zip(drawn.runs, found, strict=True):
        mean, _ = run.by_group(quantity)
        bars = getattr(one, "patches", None)
        heights = [bar.get_height() for bar in bars] if bars else one[0].get_ydata()
        np.testing.assert_allclose(heights, scale * mean)
        (errors,) = getattr(one, "errorbar", one)[2]
        ends = np.array([segment[:, 1] for segment in errors.get_segments()])
        finals = [run.finals(f"{quantity}:{group}") for group in run.groups]
        expected = np.quantile(finals, [0.1, 0.9], axis=1).T
        np.testing.assert_allclose(ends, scale * expected, atol=1e-9)
    names = [text.get_text().replace("\n", " ") for text in axes.get_xticklabels()]
    assert names == [group_name(group) for group in drawn.groups]


def test_the_papers_figures(scene, mixed_scene):
    groups = [group_name(group) for group in scene.groups]
    figure = compose("distributions", scene)
    _, cdf, *_ = figure.axes
    check_rewards(cdf, scene, "cdf", "CDF")
    (alone,) = compose("metrics", scene, Options(metrics=["fair_regret"])).axes
    check_regret(alone, scene, "fair")
    for density, *_, standard, fair in (figure.axes, compose("overview", scene).axes):
        check_rewards(density, scene, "density", "density")
        check_regret(standard, scene, "standard")
        check_regret(fair, scene, "fair")
    named = [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]
    assert named == [groups, NAMES]
    share, *_ = compose("selection", mixed_scene).axes
    assert share.get_ylabel() == "selected candidates [%]\n(mean, 10 to 90 %)"
    check_groups(share, mixed_scene, "selection_rate", 100)
    assert list(lines(share)["_1/K"].get_ydata()) == pytest.approx([20, 20])  # pools of five
    (means, *_) = compose("selection", mixed_scene, Options(interval="mean")).axes
    drawn = [one for one in means.containers if one.get_label() in NAMES]
    for run, one in zip(mixed_scene.runs, drawn, strict=True):  # as in tables
        (errors,) = getattr(one, "errorbar", one)[2]
        ends = [segment[:, 1] for segment in errors.get_segments()]
        known = [run.spreads[f"selection_rate:{group}"] for group in run.groups]
        expected = [[100 * own["low"], 100 * own["high"]] for own in known]
        np.testing.assert_allclose(ends, expected, atol=1e-9)
    _, count, *_ = compose("counts", mixed_scene).axes
    assert count.get_yscale() == "symlog"
    check_groups(count, mixed_scene, "selected", 1)
    density, *_ = compose("overview", mixed_scene).axes
    assert density.get_xlabel() == "wage (standard deviations)"  # rewards are standardised
    (axes,) = compose("price", mixed_scene).axes
    assert axes.get_xlabel() == "cost per pick at T = 400 (wage)"
    for run, (marker, *_) in zip(mixed_scene.runs, axes.containers, strict=True):
        cost = run.metrics["standard_regret"]["mean"] * np.std(people()["wage"]) / 400
        assert marker.get_xydata()[0, 0] == pytest.approx(cost)


@pytest.mark.parametrize(("kind", "spread"), INTERVALS.items())
def test_bands_and_bars_of_every_kind_and_a_width(scene, kind, spread):
    figure = compose("metrics", scene, Options(interval=kind, width=5.0, metrics=REGRETS))
    check_regret(figure.axes[0], scene, "standard", spread)
    assert figure.get_figwidth() == 5
    (axes,) = compose("price", scene, Options(interval=kind)).axes
    assert axes.get_xlabel() == "standard regret at T = 400"
    assert axes.get_ylabel() == f"fair regret at T = 400\n({spread})"
    for run, (marker, _, bars) in zip(scene.runs, axes.containers, strict=True):
        for at, name in enumerate(REGRETS):
            end = run.metrics[name]
            assert marker.get_xydata()[0, at] == end["mean"]
            ends = {
                "std": (end["mean"] - end["std"], end["mean"] + end["std"]),
                "mean": (end["low"], end["high"]),
                "quantiles": np.quantile(run.curves[name, None].values[:, -1], [0.1, 0.9]),
            }
            # a regret is at least 0, and so is its bar
            assert bars[at].get_segments()[0][:, at] == pytest.approx(np.fmax(ends[kind], 0))


def test_a_figure_of_runs_in_memory_is_that_of_their_folder(simulated, scene):
    played = [fairbandit.run({"policy": name, "rounds": 400, "replicas": 3}) for name in POLICIES]
    for runs in (played, [simulated]):
        (axes,) = figure("metrics", *runs, metrics=["fair_regret"]).axes
        check_regret(axes, scene, "fair")
    with pytest.raises(FairbanditError, match="no run has policy=oful"):
        figure("price", *played, policy=["oful"])


def test_frontier():
    def ranked(rank: str, standard: float, alpha: float | None = None) -> Any:
        finals = {"standard_regret": around(standard), "fair_regret": around(100 - standard)}
        config = {"rank": {"name": rank} if alpha is None else {"name": rank, "alpha": alpha}}
        return saved(rank, finals, config=config)

    weighted = [ranked("tradeoff", *pair) for pair in ((10.0, 1.0), (50.0, 0.0), (30.0, 0.25))]
    (axes,) = compose("frontier", scene_of(*weighted, ranked("identity", 1.0))).axes
    joined, other = axes.containers
    assert joined[0].get_xydata().tolist() == [[50, 50], [30, 70], [10, 90]]
    assert [text.get_text() for text in axes.texts] == ["0", "0.25", "1"]
    assert (other.get_label(), other[0].get_xydata().tolist()) == ("identity", [[1, 99]])
    with pytest.raises(FairbanditError, match=r"at several policy\.rank\.alpha; found 1"):
        compose("frontier", scene_of(weighted[0]))


def test_a_group_that_is_never_selected_has_its_point_at_0():
    runs = [run for setting in crossed(["greedy", "oful"]).runs for run in setting.runs]
    finals = runs[0].finals
    finals.loc[(finals["measure"] == "selected") & (finals["group"] == "b"), "value"] = 0.0
    axes = compose("counts", scene_of(*runs), Options(interval="std")).axes[1]
    assert axes.containers[0][0].get_ydata()[1] == 0 > axes.get_ylim()[0]


def test_facets_share_their_axes_and_a_legend():
    made = crossed(["oful", "greedy"], regularization=SIX)
    figure: Any = compose("selection", made, Options("policy", "std"))
    check_texts(figure)
    assert all(axes.bbox.height >= 1.5 * figure.dpi for axes in figure.axes)
    shares, *_ = rows = np.reshape(np.array(figure.axes), (2, 3)).T
    assert [axes.get_title(loc="left") for axes in shares] == ["OFUL", "Greedy"]
    assert [len(legend.get_texts()) for legend in figure.legends] == [6]
    for same in rows:
        assert same[0].get_ylim() == same[1].get_ylim()
    highest = max(run.metrics["fair_regret"]["mean"] for run in made.runs)
    assert rows[2][0].get_ylim()[1] > highest


WORDS = {
    "short": ("gap", ("a", "b", "c")),
    "long": (
        *("a_policy_with_a_name_of_almost_as_many_letters_as_can_be",),
        ("American Indian or Alaska Native alone", "$50k-$60k", "LatinoNative", *"abcde"),
    ),
    "cjk": ("公平な選択", ("男性", "女性労働者全体", "その他")),
}


def crowd(number: int, words: str) -> Scene:
    """Policies with large regrets, half of which trade off."""
    name, groups = WORDS[words]
    runs = []
    for place in range(number):
        ends = {"standard_regret": 900.0 + 900 * place, "fair_regret": 30.0 + 20 * (place % 7)}
        finals = {column: around(end, -9, 0, 0, 9) for column, end in {**ends, "gap": 9}.items()}
        weighted = place < max(2, number / 2)
        rank = {"name": "tradeoff", "alpha": place / 16} if weighted else {"name": "identity"}
        unit = {"name": " ".join(groups), "std": 2.0}
        runs.append(saved(f"{name} {place}", finals, groups, {"rank": rank}, unit=unit))
    return scene_of(*runs)


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
@pytest.mark.parametrize(
    ("width", "number", "words", "names"),
    [
        (3.25, 2, "long", ("selection", "frontier")),
        (3.25, 16, "cjk", ("overview", "notions")),
        (5.0, 16, "long", ("counts", "price")),
        (7.0, 16, "short", ("notions",)),
    ],
)
def test_no_two_texts_overlap_and_none_is_cut_off(width, number, words, names):
    for name in names:
        check_texts(compose(name, crowd(number, words), Options(None, "std", width)))


def test_lines_that_coincide_are_seen():
    # OFUL is dashed, Fair-Greedy is solid; a regret of 0 lies on the axis
    finals = {"standard_regret": around(9.0), "fair_regret": [0.0] * 4}
    made = scene_of(saved("oful", finals), saved("fair_greedy", finals))
    figure = compose("overview", made, Options(interval="std"))
    figure.set_dpi(300)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3]
    for axes in figure.axes[1:]:
        box = axes.bbox.padded(-3)
        inside = pixels[int(axes.bbox.y0) - 3 : int(box.y1), int(box.x0) : int(box.x1)]
        colours = [np.array(to_rgb(line.get_color())) * 255 for line in axes.get_lines()]
        seen = [(abs(inside - colour).max(axis=-1) < 9).sum() for colour in colours]
        assert min(seen) > 0.1 * sum(seen) > 0


def test_figures_are_drawn_by_default_if_the_runs_have_their_data(scene):
    assert general(scene) == ["overview", "selection", "distributions", "counts", "price"]


def test_files_of_each_environment_have_names_of_their_own(simulated, mixed, tmp_path, capsys):
    figures([str(simulated), str(mixed), "only=price", f"out={tmp_path}", "width=5"])
    names = sorted(path.name for path in tmp_path.glob("*.png"))
    assert names == ["simulation-price.png", "table-price.png"]
    assert imread(tmp_path / "table-price.png").shape[1] == 1000
    assert "table-price.pdf" in capsys.readouterr().out


def test_what_cannot_be_drawn(simulated, scene, tmp_path):
    with pytest.raises(FairbanditError, match="no run in simulation has a metric beside both"):
        compose("metrics", scene)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        draw([simulated], tmp_path / "file" / "figures", {"price": None})
    unknown, price = Options(metrics=["nope"]), {"price": None}
    for folder, out, choice, options, message in (
        (simulated, tmp_path, {"nope": None}, None, "unknown figure 'nope'; expected one of over"),
        (simulated, tmp_path, price, unknown, "unknown metric 'nope'; expected one of stan"),
        (tmp_path, tmp_path, price, None, "no finished run below"),
    ):
        with pytest.raises(FairbanditError, match=message):
            draw([folder], out, choice, options=options)
