"""Audits logged decisions and tables of people: rates of groups, drift and parity."""

from fairbandit.audit.applicants import audit_table
from fairbandit.audit.logged import Audit, audit
from fairbandit.audit.processes import plan

__all__ = ["Audit", "audit", "audit_table", "plan"]
