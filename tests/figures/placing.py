"""The places of the texts in a figure."""

from itertools import combinations
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text


def texts(figure: Any) -> list[tuple[str, Any]]:
    """All texts that a figure shows, with their boxes."""
    canvas: Any = FigureCanvasAgg(figure)
    ticks = set[int]()
    figure.draw_without_rendering()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        hidden = {*axis.get_major_ticks(), *axis.get_minor_ticks()} - {*axis._update_ticks()}
        ticks |= {id(label) for tick in hidden for label in (tick.label1, tick.label2)}
    shown = [text for text in figure.findobj(Text) if text.get_visible() and id(text) not in ticks]
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in shown]
    return [(text, box) for text, box in boxes if text.strip() and box.width > 1]


def check_texts(figure: Any) -> None:
    """No two texts overlap, and none is cut off."""
    found, inside = texts(figure), figure.bbox.padded(3)
    for text, box in found:
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1, text
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1, text
    for (text, box), (other, beside) in combinations(found, 2):
        assert not box.padded(-1).overlaps(beside.padded(-1)), (text, other)
