"""The command line; nothing outside of this package knows of Hydra."""
