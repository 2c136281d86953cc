"""The pools, picks and rewards of the rounds so far, as a value."""

from fairbandit.past.outcomes import Outcomes
from fairbandit.past.past import Past
from fairbandit.past.rows import Rows

__all__ = ["Outcomes", "Past", "Rows"]
