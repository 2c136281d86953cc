"""Plays one run: takes a plain config and writes the files in the run's folder.

`fairbandit.run.execute.execute` is the way in; nothing is imported here, so that reading settings
or summaries does not load the writers.
"""
