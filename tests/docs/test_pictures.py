"""Pictures of the pages: legible on a phone, on a ground of their own, drawn alike each time."""

import re
from xml.etree import ElementTree

import pytest

from docs.pictures import draw, plots
from fairbandit.figures.draw import compose
from tests.docs.pages import DOCS, EVERY
from tests.figures.synthetic import around, saved, scene_of

FILES = sorted((DOCS / "pictures").glob("*.svg"))
PHONE = 328
"""The width of a text on a phone of 360 pixels."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_pictures_are_small_safe_and_legible(file):
    assert file.stat().st_size < 200_000
    text = file.read_text(encoding="utf-8")
    assert not re.search(r'<script|<style|href="(?!#|data:image/png)', text)
    whole = ElementTree.fromstring(text)
    words = [part for part in whole.iter() if part.tag.endswith("}text")]
    assert words  # texts can be selected and searched for
    if "plot" not in whole.attrib["class"]:
        return
    ground = next(part for part in whole.iter() if part.tag.endswith("}path"))
    assert "fill: #ffffff" in ground.attrib["style"]
    if file.stem.endswith(".phone"):
        width = float(whole.attrib["viewBox"].split()[2])
        styles = " ".join(part.attrib["style"] for part in words)
        sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", styles)]
        assert len(sizes) == len(words)
        assert min(sizes) * PHONE / width > 8


def test_every_picture_is_drawn_and_shown():
    plotted = {f"{name}{ending}" for name in plots.PLOTS for ending in ("", ".phone")}
    assert {file.stem for file in FILES} == plotted | {*draw.DRAWINGS}
    shown = {name for page in EVERY for name in re.findall(r"pictures/(\w+)\.svg", page.text)}
    assert shown == {*plots.PLOTS, *draw.DRAWINGS}


def test_a_plot_is_the_same_text_each_time():
    made = scene_of(saved("greedy", {"standard_regret": around(9.0), "fair_regret": around(3.0)}))
    figures = [compose("price", made) for _ in range(2)]
    for figure in figures:
        figure.text(0, 0, "0.0118")
    one, two = (plots.svg(figure, "price.phone") for figure in figures)
    assert one == two
    assert one.startswith('<svg class="plot phone"')
    assert ">0.0118</text>" in one  # coordinates alone are rounded
