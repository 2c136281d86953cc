"""Audits logged decisions and saved runs: selection rates of groups, drift and parity."""

from fairbandit.audit.logged import Audit, audit
from fairbandit.audit.parity import LEVEL, Picks, examine, mean_band

__all__ = ["LEVEL", "Audit", "Picks", "audit", "examine", "mean_band"]
