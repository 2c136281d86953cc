"""Figures of saved runs; this package never simulates.

`fairbandit.results` reads the runs. A panel (`panels`) draws one quantity, and a figure (`compose`)
arranges panels side by side. `style` defines colours, lines and fonts.
"""

from fairbandit.figures.compose import FIGURES
from fairbandit.figures.draw import Drawn, draw

__all__ = ["FIGURES", "Drawn", "draw"]
