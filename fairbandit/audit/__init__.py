"""Demographic parity, estimated and tested from the rows that runs left behind."""

from fairbandit.audit.binomial import binomial_p, holm, mean_band
from fairbandit.audit.parity import LEVEL, ParityResult, examine
from fairbandit.audit.picks import Picks, read_picks
from fairbandit.audit.report import Report, report

__all__ = [
    "LEVEL",
    "ParityResult",
    "Picks",
    "Report",
    "binomial_p",
    "examine",
    "holm",
    "mean_band",
    "read_picks",
    "report",
]
