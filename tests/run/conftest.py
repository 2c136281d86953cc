import pytest


@pytest.fixture
def config():
    """A small run of the simulation."""
    return {
        "policy": {
            "name": "fair_greedy",
            "split": "halves",
            "estimator": "ridge",
            "rank": "empirical_cdf",
        },
        "environment": {"name": "simulation"},
        "rounds": 100,
        "replicas": 3,
        "seed": 1,
    }
