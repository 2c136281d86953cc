"""Estimates and tests demographic parity from the round logs of saved runs."""

from fairbandit.audit.parity import LEVEL, ParityResult, binomial_p, examine, holm, mean_band
from fairbandit.audit.picks import Picks, read_picks
from fairbandit.audit.report import report

__all__ = [
    "LEVEL",
    "ParityResult",
    "Picks",
    "binomial_p",
    "examine",
    "holm",
    "mean_band",
    "read_picks",
    "report",
]
