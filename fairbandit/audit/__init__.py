"""Audits logged decisions and saved runs: selection rates of groups, drift and parity."""

from fairbandit.audit.logged import Audit, audit
from fairbandit.audit.rates import CONFIDENCE_OF_RUNS, examine_counts
from fairbandit.runs.intervals import mean_band

__all__ = ["CONFIDENCE_OF_RUNS", "Audit", "audit", "examine_counts", "mean_band"]
