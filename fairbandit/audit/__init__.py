"""Audits logged decisions and saved runs: selection rates of groups, drift and parity."""

from fairbandit.audit.logged import Audit, audit
from fairbandit.audit.parity import LEVEL, Picks, binomial_p, examine, holm, mean_band

__all__ = ["LEVEL", "Audit", "Picks", "audit", "binomial_p", "examine", "holm", "mean_band"]
