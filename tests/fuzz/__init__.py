"""Random and hostile inputs against every door of the package; `python -m tests.fuzz`."""
