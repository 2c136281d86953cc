"""Plays one run by `execute.execute`. Nothing is imported here, so that readers load no writers."""
