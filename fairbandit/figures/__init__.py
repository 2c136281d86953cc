"""Figures of runs; this package never simulates.

`fairbandit.runs` reads the runs. A panel (`panels`) draws one quantity, and a figure (`draw`)
arranges panels side by side (`layout`). `style` defines colours, lines and fonts.
"""

from fairbandit.figures.draw import FIGURES, draw, figure

__all__ = ["FIGURES", "draw", "figure"]
