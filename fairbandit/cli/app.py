"""The Hydra application, and its errors as one message without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hydra
import hydra._internal.hydra

from fairbandit.building import conf_folder
from fairbandit.cli.configs import CheckedLoader
from fairbandit.cli.job import run_job
from fairbandit.cli.messages import SweepJobError, in_a_line, one_message, raised_by_hydra
from fairbandit.cli.parsers import spelt_out
from fairbandit.cli.store import publish
from fairbandit.cli.sweeps import drives_sweep, finish_sweep
from fairbandit.errors import FairbanditError

_FULL_ERROR = "HYDRA_FULL_ERROR"
_composing: Any = hydra._internal.hydra
_AGAIN = "the same command skips what is finished and tries the rest again"


def run_app(words: Sequence[str]) -> None:
    """Composes the config from the words, and runs it: one job, or a sweep of them.

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
    as_raised = os.environ.get(_FULL_ERROR) == "1"
    try:
        with _hydra_reads(spelt_out(words)):
            application()
    except SweepJobError as error:
        finish_sweep()
        raise FairbanditError(f"{error}; {_AGAIN}") from None
    except Exception as error:
        driving = drives_sweep()
        finish_sweep()
        if isinstance(error, FairbanditError) or as_raised:
            raise
        if raised_by_hydra(error):
            raise FairbanditError(one_message(error)) from None
        if driving:  # the launcher failed: jobs write their own errors to their folders
            line = in_a_line(error)
            raise FairbanditError(f"the sweep was cut short by {line}; {_AGAIN}") from None
        raise
    except BaseException:
        finish_sweep(table=False)
        raise
    failed = len(finish_sweep())
    if failed:
        jobs = "a job" if failed == 1 else f"{failed} jobs"
        raise FairbanditError(f"{jobs} of this sweep failed; {_AGAIN}")


@contextmanager
def _hydra_reads(words: Sequence[str]) -> Iterator[None]:
    """Gives Hydra its words and the loader that checks configs, and makes it raise its errors.

    Without the environment variable Hydra would print errors and exit.
    """
    loader, argv, full_error = _composing.ConfigLoaderImpl, sys.argv, os.environ.get(_FULL_ERROR)
    _composing.ConfigLoaderImpl, sys.argv = CheckedLoader, ["fairbandit", *words]
    os.environ[_FULL_ERROR] = "1"
    try:
        yield
    finally:
        _composing.ConfigLoaderImpl, sys.argv = loader, argv
        if full_error is None:
            del os.environ[_FULL_ERROR]
        else:
            os.environ[_FULL_ERROR] = full_error
