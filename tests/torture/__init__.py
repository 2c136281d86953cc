"""Kills, full disks, read-only folders: `python -m tests.torture`; and a cluster of Ray nodes."""
