from fairbandit.logs.log import Floats, Ints, Log

__all__ = ["Floats", "Ints", "Log"]
