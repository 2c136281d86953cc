"""Notions of fairness besides the paper's, each against a literal loop of its own source."""
