"""Demographic parity, estimated and tested from the rows that runs left behind."""

from fairbandit.audit.findings import LEVEL, Finding, examine
from fairbandit.audit.picks import Picks, read_picks
from fairbandit.audit.report import Report, report
from fairbandit.audit.statistics import binomial_p, holm, mean_band

__all__ = [
    "LEVEL",
    "Finding",
    "Picks",
    "Report",
    "binomial_p",
    "examine",
    "holm",
    "mean_band",
    "read_picks",
    "report",
]
