"""Curves: when they are sampled, what they hold, and what TensorBoard shows of a run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2

from fairbandit.runs import Callback, Run
from fairbandit.runs.execute import execute
from fairbandit.runs.record import MAX_GROUPS, Record, sampled_rounds

REGRETS = ("fair_regret", "standard_regret")


@given(st.integers(1, 10**8))
def test_curves_have_at_most_a_thousand_points_with_both_ends(rounds):
    steps = sampled_rounds(rounds).tolist()
    assert (steps[0], steps[-1]) == (1, rounds)
    assert len(steps) <= 1000
    assert steps == sorted(set(steps))
    if rounds <= 300:
        assert len(steps) == rounds
    names = [f"g{number}" for number in range(MAX_GROUPS + 1)]
    assert [len(Record(rounds, groups, {}).steps) for groups in (names[1:], names)] == [
        *(MAX_GROUPS, 0)  # the rates of many groups are not drawn
    ]


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        tag: {point.step: point.value for point in events.Scalars(tag)}
        for tag in events.Tags()["scalars"]
    }


def test_curves_in_tensorboard(config, tmp_path):
    summary = execute({**config, "rounds": 1500}, tmp_path)
    shown = scalars(tmp_path)
    tags = {f"{regret}/{line}" for regret in REGRETS for line in ("mean", "lower", "upper")}
    assert set(shown) == tags | {f"selection_rate/{group}" for group in "0123"}
    for regret in REGRETS:
        mean, std = summary["metrics"][regret]["mean"], summary["metrics"][regret]["std"]
        ends = {line: shown[f"{regret}/{line}"][1500] for line in ("mean", "lower", "upper")}
        assert ends == pytest.approx({"mean": mean, "lower": mean - std, "upper": mean + std})
        assert 1 in shown[f"{regret}/mean"]
    for group in "0123":
        rate = summary["selection_rate"][group]["mean"]
        assert shown[f"selection_rate/{group}"][1500] == pytest.approx(rate)
    text = tensor_of(tmp_path, "config").string_val[0].decode()
    assert json.loads(text.removeprefix("```json\n").removesuffix("\n```")) == summary["config"]
    written = tensor_of(tmp_path, "custom_scalars__config__").string_val
    layout = layout_pb2.Layout.FromString(written[0])
    margins = [chart.margin.series[0] for chart in layout.category[0].chart]
    assert len(margins) == 2
    drawn = [{margin.value, margin.lower, margin.upper} for margin in margins]
    charts = [chart for category in layout.category[1:] for chart in category.chart]
    lines = [re.compile(chart.multiline.tag[0]) for chart in charts]
    drawn += [{tag for tag in shown if line.match(tag)} for line in lines]
    assert [len(tags) for tags in drawn] == [3] * 2 + [1] * 4  # the rates of four groups
    assert set.union(*drawn) == set(shown)


def test_a_run_under_way_shows_its_curves_while_its_first_batch_is_played(
    config, tmp_path, monkeypatch
):
    monkeypatch.setattr("fairbandit.runs.execute.BUDGET", 1)
    seen: dict[int, dict[str, float]] = {}
    shown: list[int] = []

    class Watch(Callback):
        def on_rounds(self, t, means):
            seen[t] = dict(means)
            shown.append(max(scalars(tmp_path)["fair_regret/mean"]))

    summary = execute({**config, "rounds": 600}, tmp_path, callbacks=[Watch()])
    assert list(seen) == shown == [256, 512, 600]
    finals = Run(tmp_path, summary).finals
    first = finals[(finals.measure == "fair_regret") & (finals.replica == 0)].value.item()
    assert seen[600]["fair_regret"] == pytest.approx(first)


def tensor_of(folder: Path, tag: str) -> Any:
    (event,) = EventAccumulator(str(folder)).Reload().Tensors(tag)
    return event.tensor_proto
