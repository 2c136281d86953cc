"""Carries out one run: from a plain config to the files in its folder.

`fairbandit.run.execute.execute` is the way in; nothing is imported here, so that reading settings
or summaries does not load the writers.
"""
