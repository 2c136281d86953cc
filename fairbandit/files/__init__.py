"""Files that are written whole, their hashes, and the forms of their contents."""

from fairbandit.files.files import data_hash

__all__ = ["data_hash"]
