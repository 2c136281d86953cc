"""What TensorBoard is told beside the curves."""

import json
import re

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2

from fairbandit.run.execute import execute
from fairbandit.run.statistics import MAX_GROUPS, RunStatistics


def test_the_config_and_a_layout_of_tags_that_there_are_are_written_once(config, tmp_path):
    summary = execute(config, tmp_path)
    events = EventAccumulator(str(tmp_path)).Reload()
    (text,), (shown,) = (events.Tensors(tag) for tag in ("config", "custom_scalars__config__"))
    found = text.tensor_proto.string_val[0].decode()
    assert json.loads(found.removeprefix("```json\n").removesuffix("\n```")) == summary["config"]
    layout = layout_pb2.Layout.FromString(shown.tensor_proto.string_val[0])
    margins = [chart.margin.series[0] for chart in layout.category[0].chart]
    tags = set(events.Tags()["scalars"])
    assert len(margins) == 2
    drawn = [{one.value, one.lower, one.upper} for one in margins]
    charts = [chart for category in layout.category[1:] for chart in category.chart]
    lines = [re.compile(chart.multiline.tag[0]) for chart in charts]
    drawn += [{tag for tag in tags if line.match(tag)} for line in lines]
    assert [len(one) for one in drawn] == [3] * 2 + [1] * (2 + 4)  # the rates of four groups
    assert set.union(*drawn) == tags


def test_of_many_groups_no_selection_rate_is_drawn():
    names = [f"g{number}" for number in range(MAX_GROUPS + 1)]
    for groups, drawn in ((names[:-1], MAX_GROUPS), (names, 0)):
        statistics = RunStatistics(2, groups, {})
        statistics.start(1)
        assert len(statistics.curves()) == drawn
