"""What TensorBoard is told beside the curves, and the curves derived from others."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2

from fairbandit.errors import FairbanditError
from fairbandit.metrics import Played
from fairbandit.run import tensorboard
from fairbandit.run.execute import execute
from fairbandit.run.folder import EVENTS
from fairbandit.run.statistics import WINDOWS, RunStatistics
from fairbandit.run.tensorboard import read_config, read_events
from tests.run.test_curves import scalars


def tensors(folder: Path, tag: str) -> tuple[Any, Any]:
    events = EventAccumulator(str(folder)).Reload()
    assert len(events.Tensors(tag)) == 1
    return events, events.Tensors(tag)[0].tensor_proto


def test_the_layout_is_written_once_and_names_tags_that_there_are(config, tmp_path):
    execute(config, tmp_path)
    _, tensor = tensors(tmp_path, "custom_scalars__config__")
    layout = layout_pb2.Layout.FromString(tensor.string_val[0])
    margins = [chart.margin.series[0] for chart in layout.category[0].chart]
    tags = set(scalars(tmp_path))
    assert len(margins) == 2
    for one in margins:
        assert {one.value, one.lower, one.upper} <= tags
    charts = [chart for category in layout.category[1:] for chart in category.chart]
    lines = [re.compile(chart.multiline.tag[0]) for chart in charts]
    drawn = [[tag for tag in tags if line.match(tag)] for line in lines]
    assert [len(one) for one in drawn] == [1] * (3 + 4)  # selection rates of four groups
    assert len(tags) <= 13


def test_the_config_is_written_first_and_read_again(config, tmp_path):
    summary = execute(config, tmp_path)
    tensors(tmp_path, "config")
    assert read_config(tmp_path) == summary["config"]
    (events,) = tmp_path.glob(EVENTS)
    written = events.read_bytes()
    events.write_bytes(written[: len(written) - 1])
    assert len(list(read_events(tmp_path))) == 3 + config["rounds"] - 1
    events.write_bytes(written[:100])
    assert read_config(tmp_path) is None


def test_a_damaged_event_file_is_refused(config, tmp_path):
    (tmp_path / EVENTS.replace("*", "1")).write_bytes(
        bytes([3, *[0] * 11, 255, 255, 255, *[0] * 4])
    )
    with pytest.raises(FairbanditError, match=r"cannot be read: .*; remove it"):
        list(read_events(tmp_path))


def test_instantaneous_regrets_are_means_over_windows(config, tmp_path):
    execute({**config, "rounds": 1500}, tmp_path)
    curves = scalars(tmp_path)
    sums, means = curves["fair_pseudo_regret/mean"], curves["instantaneous_regret/fair"]
    assert len(means) <= WINDOWS
    before, total = 0, 0.0
    for end, mean in means.items():
        assert mean * (end - before) == pytest.approx(sums[end] - total, abs=1e-3)
        before, total = end, sums[end]
    assert before == 1500


def test_the_parity_gap_is_the_greatest_rate_less_the_least(config, tmp_path):
    execute(config, tmp_path)
    curves = scalars(tmp_path)
    for step, gap in curves["parity_gap"].items():
        rates = [curves[f"selection_rate/{group}"][step] for group in "0123"]
        assert gap == pytest.approx(max(rates) - min(rates))


def test_of_one_replica_the_metric_is_that_gap(config, tmp_path):
    execute({**config, "replicas": 1, "metrics": {"parity_gap": "parity_gap"}}, tmp_path)
    curves = scalars(tmp_path)
    assert curves["parity_gap"]
    for step, gap in curves["parity_gap"].items():
        assert gap == curves["parity_gap/mean"][step]


def test_of_many_groups_only_the_gap_is_drawn():
    groups = tensorboard.MAX_GROUPS + 1
    statistics = RunStatistics(2, [f"g{number}" for number in range(groups)])
    statistics.start(1)
    ones = torch.ones(1, 2, dtype=torch.float64)
    picked = torch.tensor([[0, 1]])
    received = torch.ones(1, groups, dtype=torch.int64)
    regrets = {"fair_regret": ones, "standard_regret": ones}
    statistics.add(Played(1, [0], picked, picked, ones, ones, ones, ones, regrets, received))
    tags = {tag for _, values in statistics.points(1, 2) for tag in values}
    assert "parity_gap" in tags
    assert not any(tag.startswith("selection_rate") for tag in tags)


def test_an_image_knows_its_size():
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
    (value,) = tensorboard.image("figure", png).value
    assert (value.tag, value.image.width, value.image.height) == ("figure", 640, 480)
