"""What TensorBoard is told beside the curves, and the curves derived from others."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import metadata

from fairbandit.metrics import Played
from fairbandit.run import tensorboard
from fairbandit.run.execute import execute
from fairbandit.run.statistics import WINDOWS, RunStatistics
from tests.run.test_pieces import scalars


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
    lines = {chart.multiline.tag[0] for chart in layout.category[1].chart}
    assert lines - tags == {"selection_rate/.*"}
    assert len(tags) <= 13


def test_hyperparameters_are_written_once(config, tmp_path):
    execute(config, tmp_path / "sweep" / "job")
    folder = tmp_path / "sweep" / "job"
    events, _ = tensors(folder, metadata.SESSION_START_INFO_TAG)
    content = events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    info = metadata.parse_session_start_info_plugin_data(content)
    assert info.group_name == "job (sweep)"
    assert info.hparams["policy"].string_value == "fair_greedy"
    assert info.hparams["policy.rank"].string_value == "empirical_cdf"
    assert info.hparams["policy.estimator.regularization"].number_value == pytest.approx(0.1)
    assert info.hparams["replicas"].number_value == 3
    assert [path for path in folder.iterdir() if path.is_dir()] == [folder / "rounds"]


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
