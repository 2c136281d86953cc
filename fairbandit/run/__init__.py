"""Plays one run, by `execute.execute`. This file imports nothing, to keep readers of runs light."""
