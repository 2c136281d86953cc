"""Reports: one page of HTML on runs, an evaluation, an audit or a table of people.

A report is a value: its question, and then headings, paragraphs, tables and pictures. Each kind of
source has a function that makes it of the tables and figures of other packages, and one template
shows it.
"""

from fairbandit.report.logs import of_evaluation, of_log
from fairbandit.report.page import Report
from fairbandit.report.people import local_law_144, of_table
from fairbandit.report.runs import of_runs

__all__ = ["Report", "local_law_144", "of_evaluation", "of_log", "of_runs", "of_table"]
