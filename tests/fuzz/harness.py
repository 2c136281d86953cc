"""One hostile input at a time: what may happen, and what counts as a fault."""

import json
import random
import signal
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from fairbandit.errors import FairbanditError


class Fault(Enum):
    """What no input may bring about."""

    traceback = "an error other than the package's own"
    timeout = "no answer within the time limit"
    crash = "the end of the process"
    state = "a refused input that changed something"
    value = "a wrong value that was accepted"


class FoundError(Exception):
    """A subject's own finding.

    Args:
        fault: what kind it is.
        text: what happened.
    """

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


class Late(BaseException):
    """The time limit; not an `Exception`, so that no handler of the package takes it for one."""


@dataclass(frozen=True)
class Result:
    """What one input did.

    Attributes:
        subject: the name of the subject.
        number: the number of the input, from which the subject makes it again.
        ending: "accepted", "refused", or the name of a fault.
        text: details of a fault.
    """

    subject: str
    number: int
    ending: str
    text: str = ""

    @property
    def fault(self) -> Fault | None:
        """The fault, if the input found one."""
        return Fault.__members__.get(self.ending)

    def line(self) -> str:
        """The result as one line of JSON."""
        return json.dumps(asdict(self))


WAITING = 10
"""How many times the limit an input may take by the clock."""


class Subject(ABC):
    """A door of the package, and a source of inputs for it.

    Args:
        folder: an empty folder to work in.
    """

    name: str
    """The name on the command line."""
    share: float
    """The part of all inputs that this subject gets."""
    limit: float = 10.0
    """Seconds of the processor that one input may take."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def source(self, number: int) -> random.Random:
        """The random numbers of one input, the same each time."""
        return random.Random(f"{self.name} {number}")

    @abstractmethod
    def attempt(self, number: int) -> None:
        """Makes an input and hands it in.

        Raises:
            FairbanditError: the input was refused.
            FoundError: the subject noticed a fault.
        """


def outcome(subject: Subject, number: int) -> Result:
    """Tries one input under the subject's time limit.

    Args:
        subject: makes the input and judges what it does.
        number: of the input.
    """
    ending, text = "accepted", ""
    try:
        with _limit(subject.limit):
            subject.attempt(number)
    except FairbanditError:
        ending = "refused"
    except FoundError as found:
        ending, text = found.fault.name, str(found)
    except Late:
        ending, text = Fault.timeout.name, f"no answer within {subject.limit:g} s"
    except Exception:
        ending, text = Fault.traceback.name, traceback.format_exc()
    return Result(subject.name, number, ending, text)


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raises `Late` in this thread after some seconds, and again each second while it goes on.

    The seconds are of the processor, so that a busy machine changes nothing; whatever waits without
    computing has ten times as many by the clock.
    """

    def ring(*_: object) -> None:
        raise Late

    timers = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, WAITING * seconds),
    }
    before = {number: signal.signal(number, ring) for number in timers}
    for timer, after in timers.values():
        signal.setitimer(timer, after, 1.0)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
