"""The benchmarks: `python -m tests.benchmarks`, one module a subject. They report, never fail."""
