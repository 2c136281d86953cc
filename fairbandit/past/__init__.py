"""The pools, picks and rewards of the rounds so far, and the estimator's state, as values."""

from fairbandit.past.knowledge import Knowledge, State
from fairbandit.past.outcomes import Outcomes
from fairbandit.past.past import NEVER, Past
from fairbandit.past.rows import Rows

__all__ = ["NEVER", "Knowledge", "Outcomes", "Past", "Rows", "State"]
