"""What is known of earlier rounds: pools, picks, rewards and the estimator's state."""

from fairbandit.past.knowledge import Knowledge, State
from fairbandit.past.outcomes import Outcomes
from fairbandit.past.past import NEVER, Past
from fairbandit.past.rows import Rows

__all__ = ["NEVER", "Knowledge", "Outcomes", "Past", "Rows", "State"]
