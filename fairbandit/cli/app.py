"""The Hydra application, and its errors as one message without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import hydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from fairbandit.building import conf_folder
from fairbandit.cli.job import run_job
from fairbandit.cli.messages import one_message
from fairbandit.cli.parsers import quoted
from fairbandit.cli.store import publish
from fairbandit.cli.sweeps import finish_sweep
from fairbandit.errors import FairbanditError

_FULL_ERROR = "HYDRA_FULL_ERROR"
_AGAIN = "the same command skips what is finished and tries the rest again"


def run_app(words: Sequence[str]) -> None:
    """Runs the Hydra application: one job, or a sweep of them.

    Args:
        words: overrides and Hydra's flags.

    Raises:
        FairbanditError: an error that the user can correct, which includes Hydra's errors of
            composition. With HYDRA_FULL_ERROR=1 Hydra's errors are raised unchanged.
    """
    publish()
    application = hydra.main(
        version_base="1.3", config_path=str(conf_folder()), config_name="config"
    )(run_job)
    failure = None
    with _given_to_hydra(words) as unchanged:
        try:
            application()
        except KeyboardInterrupt:
            finish_sweep(results=False)
            raise
        except FairbanditError as error:
            failure = error
        except (HydraException, OmegaConfBaseException) as error:
            if unchanged:
                raise
            failure = FairbanditError(one_message(error))
        finally:
            failed = finish_sweep()
    if failure is not None:
        raise failure
    if failed:
        jobs = "a job" if failed == 1 else f"{failed:,} jobs"
        raise FairbanditError(f"{jobs} of this sweep failed; {_AGAIN}")


@contextmanager
def _given_to_hydra(words: Sequence[str]) -> Iterator[bool]:
    """Gives Hydra its words, and makes it raise the errors that it would print.

    Yields:
        Whether the user has asked for Hydra's errors as they are.
    """
    argv, full_error = sys.argv, os.environ.get(_FULL_ERROR)
    sys.argv, os.environ[_FULL_ERROR] = ["fairbandit", *map(quoted, words)], "1"
    try:
        yield full_error == "1"
    finally:
        sys.argv = argv
        if full_error is None:
            del os.environ[_FULL_ERROR]
        else:
            os.environ[_FULL_ERROR] = full_error
