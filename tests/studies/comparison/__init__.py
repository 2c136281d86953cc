"""Decisions beside those of other libraries: the same pools and noise, each library tuned alike."""
