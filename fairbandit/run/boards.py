"""What TensorBoard is told once a run: the charts to lay out, the hyperparameters, images."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as custom
from tensorboard.plugins.hparams.summary_v2 import hparams_pb

FAIR, STANDARD = "fair_pseudo_regret", "standard_pseudo_regret"
RATE, INSTANT, GAP = "selection_rate", "instantaneous_regret", "parity_gap"

MAX_GROUPS = 8
"""Of more groups than these the rates are not drawn one by one; the parity gap always is."""

_LONGEST = 100  # characters of a hyperparameter's value


def layout() -> Summary:
    """The charts of TensorBoard's Custom Scalars page, the same for every run."""
    regrets = [
        _margin("fair pseudo-regret", FAIR),
        _margin("standard pseudo-regret", STANDARD),
    ]
    others = [
        _lines("selection rate by group", f"{RATE}/.*"),
        _lines("instantaneous regret, fair", f"{INSTANT}/fair"),
        _lines("instantaneous regret, standard", f"{INSTANT}/standard"),
        _lines("parity gap", GAP),
    ]
    made = layout_pb2.Layout(
        category=[
            layout_pb2.Category(title="pseudo-regret", chart=regrets),
            layout_pb2.Category(title="selection and instantaneous regret", chart=others),
        ]
    )
    tensor = TensorProto(dtype=DT_STRING, string_val=[made.SerializeToString()])
    value = Summary.Value(
        tag=custom.CONFIG_SUMMARY_TAG, metadata=custom.create_summary_metadata(), tensor=tensor
    )
    return Summary(value=[value])


def hyperparameters(config: Mapping[str, Any], name: str) -> Summary:
    """A run's line in TensorBoard's HParams table.

    Args:
        config: the resolved config; its keys become dotted names, long values are left out.
        name: what tells the run from others, or those with equal keys would share a line.
    """
    return hparams_pb(dict(_flat(config)), trial_id=name, start_time_secs=time.time())


def image(tag: str, png: bytes) -> Summary:
    """A PNG file on TensorBoard's Images page."""
    width, height = struct.unpack(">II", png[16:24])  # the header comes first
    shown = Summary.Image(encoded_image_string=png, width=width, height=height, colorspace=4)
    return Summary(value=[Summary.Value(tag=tag, image=shown)])


def _margin(title: str, tag: str) -> layout_pb2.Chart:
    series = layout_pb2.MarginChartContent.Series(
        value=f"{tag}/mean", lower=f"{tag}/lower", upper=f"{tag}/upper"
    )
    return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))


def _lines(title: str, tag: str) -> layout_pb2.Chart:
    return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=[tag]))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and plain values; a part's or an environment's own name stands for it."""
    for key, value in values.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{dotted}.")
        elif isinstance(value, (bool, int, float)):
            yield dotted.removesuffix(".name"), value
        elif value is not None and len(str(value)) <= _LONGEST:
            yield dotted.removesuffix(".name"), str(value)
