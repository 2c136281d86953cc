"""Selectors besides the paper's, one file each."""
