"""Audits logged decisions and saved runs: selection rates of groups, drift and parity."""

from fairbandit.audit.logged import Audit, audit
from fairbandit.audit.rates import LEVEL, examine_counts, mean_band

__all__ = ["LEVEL", "Audit", "audit", "examine_counts", "mean_band"]
