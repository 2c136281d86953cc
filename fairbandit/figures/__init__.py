"""Figures of saved runs; nothing here simulates.

`fairbandit.results` reads the runs, panels (`panels`) draw one quantity each, and figures
(`compose`) are panels side by side. All looks are in `style`.
"""

from fairbandit.figures.compose import FIGURES
from fairbandit.figures.draw import Drawn, draw

__all__ = ["FIGURES", "Drawn", "draw"]
