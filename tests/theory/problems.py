"""Constants of made-up problems, with values that are easy to reckon with."""

from dataclasses import replace

from fairbandit.theory import Constants, Estimate


def exactly(value: float) -> Estimate:
    return Estimate.exactly(value, "given")


OWN = Constants(
    places=3,
    groups=3,
    features=5,
    norm=exactly(2.0),
    eigenvalue=exactly(0.25),
    density=exactly(0.5),
    noise=exactly(1.5),
    theta=3.0,
    candidates=exactly(1.0),
    balance=None,
    random=False,
)
"""A place for each of three groups."""

TEN = replace(OWN, places=10, groups=10, balance=exactly(1.0), random=True)
"""Ten places whose groups are drawn alike from ten: q_K = 10·0.1 = 1."""

MIXED = replace(
    OWN, places=10, groups=4, random=True, candidates=exactly(0.5), balance=exactly(0.2)
)
"""Ten places whose groups are drawn alike from four, the rarest with probability 0.05."""
