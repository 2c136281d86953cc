"""Estimates and tests demographic parity from the round logs of saved runs."""

from fairbandit.audit.parity import LEVEL, Picks, binomial_p, examine, holm, mean_band
from fairbandit.audit.report import read_picks, report

__all__ = [
    "LEVEL",
    "Picks",
    "binomial_p",
    "examine",
    "holm",
    "mean_band",
    "read_picks",
    "report",
]
