"""Audits logged decisions, saved runs and tables of people: rates of groups, drift and parity."""

from fairbandit.audit.applicants import audit_table
from fairbandit.audit.logged import Audit, audit
from fairbandit.audit.rates import CONFIDENCE_OF_RUNS, examine_counts
from fairbandit.runs.intervals import mean_band

__all__ = ["CONFIDENCE_OF_RUNS", "Audit", "audit", "audit_table", "examine_counts", "mean_band"]
