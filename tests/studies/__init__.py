"""Studies behind the pages of docs: each plays many worlds and prints a table. They never fail."""
