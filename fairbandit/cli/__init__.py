"""The command line. It is the only package that uses Hydra."""
