"""Random and hostile inputs against every door of the package."""
