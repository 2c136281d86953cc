"""Pure functions on tensors; they know nothing of policies, rounds or files."""
