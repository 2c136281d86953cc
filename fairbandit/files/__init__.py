"""Files that are written whole, their hashes, and the forms of what they hold."""

from fairbandit.files.files import data_hash

__all__ = ["data_hash"]
