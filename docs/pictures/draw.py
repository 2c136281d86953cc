"""Makes the drawings of the pages: `python docs/pictures/draw.py` writes them beside itself.

Lines and words have the colour of the page that a drawing stands in, and a grey that is legible on
white and on black where it stands alone. Drawings are narrow enough for a phone.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

WIDTH = 460

BLUE, ORANGE, GREEN = "#4c8dd6", "#e0861f", "#2f9e6e"


def text(x: float, y: float, words: str, *, anchor: str = "middle", **style: object) -> str:
    """Words at a point: their middle, or with `anchor` their start or end."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{_style(style)}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, **style: object) -> str:
    """A rectangle with round corners, which is only a border unless `style` has a fill."""
    attributes = {"fill": "none", "stroke": "currentColor", "rx": 4, **style}
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{_style(attributes)}/>'


def disc(x: float, y: float, radius: float, **style: object) -> str:
    """A disc."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}"{_style(style)}/>'


def line(*points: tuple[float, float], **style: object) -> str:
    """A line through points."""
    attributes = {"fill": "none", "stroke": "currentColor", **style}
    path = "L".join(f"{x:.5g} {y:.5g}" for x, y in points)
    return f'<path d="M{path}"{_style(attributes)}/>'


def arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A straight arrow."""
    turn = math.atan2(end[1] - start[1], end[0] - start[0])
    head = [
        (end[0] - 7 * math.cos(turn + side), end[1] - 7 * math.sin(turn + side))
        for side in (0.5, 0, -0.5)
    ]
    return line(start, head[1]) + line(head[0], end, head[2], fill="currentColor")


def drawing(height: float, *shapes: str) -> str:
    """A whole drawing."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" width="{WIDTH}" '
        f'viewBox="0 0 {WIDTH} {height:g}" color="#7d8590" fill="currentColor" '
        'font-family="system-ui, sans-serif" font-size="13">\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def relative_rank() -> str:
    """The densities of two groups, and where a candidate of each stands in its own."""
    floor = 150.0
    shapes = [line((20, floor), (WIDTH - 20, floor))]
    groups = (
        ("group A", BLUE, 150, 50, 214, "rank 0.90"),
        ("group B", ORANGE, 320, 34, 302, "rank 0.30"),
    )
    for name, colour, mean, deviation, at, words in groups:

        def density(x: float, mean: float = mean, deviation: float = deviation) -> float:
            return floor - 4500 / deviation * math.exp(-(((x - mean) / deviation) ** 2) / 2)

        low, high = mean - 3 * deviation, mean + 3 * deviation
        curve = [(x, density(x)) for x in range(max(20, low), min(WIDTH - 20, high) + 1, 2)]
        below = [(x, y) for x, y in curve if x <= at]
        area = [(below[0][0], floor), *below, (at, density(at)), (at, floor)]
        shapes += [
            line(*area, fill=colour, fill_opacity=0.35, stroke="none"),
            line(*curve, stroke=colour, stroke_width=2),
            text(mean, min(y for _, y in curve) - 8, name, fill=colour, font_weight="bold"),
            line((at, floor), (at, floor + 22), stroke=colour, stroke_width=2),
            disc(at, floor, 5, fill=colour),
            text(at, floor + 38, words),
        ]
    shapes.append(text(WIDTH - 20, floor + 38, "reward →", anchor="end"))
    return drawing(200, *shapes)


def group_feature() -> str:
    """True rewards of two groups that are paid differently, with the group as a feature."""
    words = "a man who is best in the pool need not be best among men"
    return _true_rewards(175, 285, words)


def group_left_out() -> str:
    """The same, without the group as a feature."""
    words = "the difference in pay is in no feature, so the true rewards lack it"
    return _true_rewards(226, 234, words)


def _true_rewards(first: float, second: float, words: str) -> str:
    """The densities of two groups around their means, which are marked, and what follows."""
    floor, deviation = 120.0, 44.0
    shapes = [line((20, floor), (WIDTH - 20, floor))]
    for name, colour, mean, anchor in (
        ("women", BLUE, first, "end"),
        ("men", ORANGE, second, "start"),
    ):
        peak = floor - 90
        curve = [
            (x, floor - 90 * math.exp(-(((x - mean) / deviation) ** 2) / 2))
            for x in range(40, WIDTH - 38, 2)
        ]
        aside = -14 if anchor == "end" else 14
        shapes += [
            line(*curve, stroke=colour, stroke_width=2),
            line((mean, floor), (mean, peak), stroke=colour, stroke_dasharray="3 3"),
            text(mean + aside, peak - 6, name, anchor=anchor, fill=colour, font_weight="bold"),
        ]
    shapes.append(text(WIDTH - 20, floor + 18, "true reward →", anchor="end", font_size=12))
    shapes.append(text(WIDTH / 2, floor + 42, words))
    return drawing(floor + 54, *shapes)


def pools() -> str:
    """Five rounds of pools with four places, with the picks and their rewards."""
    rounds = ["AABB", "BAB-", "ABAA", "BBA-", "ABBA"]
    picks = [2, 1, 0, 0, 3]
    left, top, step = 110.0, 42.0, 34.0
    named = [(top - 22, "round"), (top + 4 * step, "reward")]
    named += [(top + 5 + place * step, f"place {place}") for place in range(4)]
    shapes = [text(left - 28, y, name, anchor="end") for y, name in named]
    for at, (pool, pick) in enumerate(zip(rounds, picks, strict=True)):
        x = left + at * 70
        shapes.append(text(x, top - 22, str(at + 1)))
        for place, group in enumerate(pool):
            y = top + place * step
            if group == "-":
                shapes.append(
                    disc(x, y, 9, fill="none", stroke="currentColor", stroke_dasharray="2 3")
                )
                continue
            shapes.append(disc(x, y, 9, fill=BLUE if group == "A" else ORANGE))
            shapes.append(text(x, y + 4, group, fill="white", font_size=11, font_weight="bold"))
        y = top + pick * step
        shapes.append(disc(x, y, 13, fill="none", stroke=GREEN, stroke_width=3))
        shapes.append(text(x, top + 4 * step, f"r{'₁₂₃₄₅'[at]}", fill=GREEN, font_weight="bold"))
    shapes.append(
        text(
            WIDTH / 2,
            top + 5 * step,
            "A, B: groups · dashed: an empty place · ring: the pick, whose reward is seen",
            font_size=12,
        )
    )
    return drawing(top + 5 * step + 12, *shapes)


def halves() -> str:
    """The use of the past rounds at round t, under the split `halves`."""
    top, height, middle, end = 30.0, 40.0, 205.0, 390.0
    return drawing(
        136,
        box(20, top, middle - 20, height, fill=BLUE, fill_opacity=0.35, stroke=BLUE),
        box(middle, top, end - middle, height, fill=ORANGE, fill_opacity=0.35, stroke=ORANGE),
        box(end, top, 50, height, stroke=GREEN, stroke_width=2),
        text((20 + middle) / 2, top + 25, "rounds 1 … t̃"),
        text((middle + end) / 2, top + 25, "rounds t̃+1 … t−1"),
        text(end + 25, top + 25, "t", font_weight="bold"),
        text((20 + middle) / 2, top - 10, "picks and their rewards", font_size=12),
        text((middle + end) / 2, top - 10, "contexts of all candidates", font_size=12),
        arrow(((20 + middle) / 2, top + height + 4), ((20 + middle) / 2, top + height + 26)),
        arrow(((middle + end) / 2, top + height + 4), ((middle + end) / 2, top + height + 26)),
        text((20 + middle) / 2, top + height + 44, "train the estimator"),
        text((middle + end) / 2, top + height + 44, "feed the ranks"),
        text(end + 25, top + height + 20, "decided", font_size=12),
    )


def blocks() -> str:
    """The rounds that are decided together under the split `halves`."""
    top, height, unit = 26.0, 34.0, 14.0
    shapes: list[str] = []
    played = step = 0
    while played < 30:
        end, step = 2 * played + 2, step + 1
        x, width = 20 + played * unit, (end - played) * unit
        colour = (BLUE, ORANGE)[step % 2]
        shapes.append(box(x, top, width, height, fill=colour, fill_opacity=0.35, stroke=colour))
        for at in range(played + 1, end):
            ruled = 20 + at * unit
            shapes.append(
                line((ruled, top), (ruled, top + height), stroke=colour, stroke_opacity=0.5)
            )
        shapes.append(text(x + width / 2, top + height + 18, f"{step}", font_weight="bold"))
        shapes.append(text(x + width / 2, top - 8, f"{played + 1}–{end}", font_size=12))
        played = end
    shapes.append(text(WIDTH / 2, top + height + 40, "rounds 1 to 30 in four steps"))
    return drawing(top + height + 52, *shapes)


def replicas() -> str:
    """Replicas as layers of one tensor."""
    shapes = []
    left, top, unit, columns, rows = 90.0, 56.0, 26.0, 8, 4
    for layer, opacity in ((2, 0.15), (1, 0.25), (0, 0.45)):
        x, y = left + 26 * layer, top - 20 * layer
        shapes.append(
            box(x, y, columns * unit, rows * unit, fill=BLUE, fill_opacity=opacity, stroke=BLUE)
        )
    for column in range(1, columns):
        x = left + column * unit
        shapes.append(line((x, top), (x, top + rows * unit), stroke=BLUE, stroke_opacity=0.6))
    for row in range(1, rows):
        y = top + row * unit
        shapes.append(line((left, y), (left + columns * unit, y), stroke=BLUE, stroke_opacity=0.6))
    right, floor = left + columns * unit, top + rows * unit
    shapes += [
        text(left + columns * unit / 2, floor + 20, "N rounds"),
        text(left - 10, top + rows * unit / 2 + 4, "K places", anchor="end"),
        arrow((right + 12, floor - 6), (right + 64, floor - 46)),
        text(right + 46, floor - 12, "B replicas", anchor="start"),
    ]
    return drawing(floor + 32, *shapes)


def rare_group() -> str:
    """Three estimates of the distribution of 11 scores, as functions of the score."""
    scores = [-1.6, -1.2, -0.7, -0.5, -0.1, 0.0, 0.3, 0.7, 0.8, 1.4, 1.5]
    n, mean = len(scores), sum(scores) / len(scores)
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / n)
    width = 4 ** (1 / 3) * deviation * math.sqrt(n / (n - 1)) * n ** (-1 / 3)

    def normal(value: float) -> float:
        return (1 + math.erf(value / math.sqrt(2))) / 2

    def empirical(score: float) -> float:
        return sum(past <= score for past in scores) / n

    def smoothed(score: float) -> float:
        return sum(normal((score - past) / width) for past in scores) / n

    def shrunk(score: float) -> float:  # towards normal scores, with the prior 20
        return (n * empirical(score) + 20 * normal((score - mean) / deviation)) / (n + 20)

    left, top, height, unit = 40.0, 14.0, 150.0, 70.0
    middle = left + 3 * unit
    shapes = [line((left, top), (left, top + height), (WIDTH - 10, top + height))]
    shapes += [
        text(left - 6, top + (1 - share) * height + 4, f"{share:g}", anchor="end")
        for share in (0, 0.5, 1)
    ]
    for score in scores:
        x = middle + score * unit
        shapes.append(line((x, top + height), (x, top + height + 7), stroke_width=2))
    names = (
        ("empirical_cdf", BLUE, empirical),
        ("shrunk_cdf", ORANGE, shrunk),
        ("smoothed_cdf", GREEN, smoothed),
    )
    for at, (name, colour, estimate) in enumerate(names):
        xs = [left + step / 2 for step in range(2 * int(WIDTH - 10 - left))]
        points = [(x, top + (1 - estimate((x - middle) / unit)) * height) for x in xs]
        shapes.append(line(*points, stroke=colour, stroke_width=2))
        y = top + 14 + 18 * at
        shapes.append(text(left + 12, y, name, anchor="start", fill=colour, font_weight="bold"))
    shapes.append(text(WIDTH - 10, top + height + 24, "score →", anchor="end"))
    shapes.append(text(left, top + height + 24, "11 past scores of the group", anchor="start"))
    return drawing(top + height + 34, *shapes)


def parts() -> str:
    """The four parts of a policy, and the values that each of them passes on."""
    shapes = []
    kinds = (
        ("split", BLUE, ("which rounds", "train and rank")),
        ("estimator", BLUE, ("scores of", "candidates")),
        ("rank", ORANGE, ("an index for", "each candidate")),
        ("selector", GREEN, ("a pick, with its", "probability")),
    )
    for at, (kind, colour, handed) in enumerate(kinds):
        x = 6 + at * 116
        shapes.append(box(x, 10, 92, 40, fill=colour, fill_opacity=0.3, stroke=colour))
        shapes.append(text(x + 46, 35, kind, font_weight="bold"))
        if at < 3:
            shapes.append(arrow((x + 95, 30), (x + 113, 30)))
        shapes += [text(x + 46, 72 + 16 * row, words) for row, words in enumerate(handed)]
    return drawing(100, *shapes)


def _style(style: dict[str, object]) -> str:
    return "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())


DRAWINGS = {
    "relative_rank": relative_rank,
    "group_feature": group_feature,
    "group_left_out": group_left_out,
    "pools": pools,
    "halves": halves,
    "blocks": blocks,
    "replicas": replicas,
    "parts": parts,
    "rare_group": rare_group,
}
"""The drawings by the names of their files."""

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (Path(__file__).parent / f"{name}.svg").write_text(draw(), encoding="utf-8")
