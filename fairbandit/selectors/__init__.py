"""Selectors: pick candidates of each pool, with known probabilities."""

from fairbandit.selectors.base import (
    Ranked,
    Selection,
    Selector,
    best,
    proportional,
    softmax,
)
from fairbandit.selectors.chain import Chain
from fairbandit.selectors.fa_ir import FairTopK
from fairbandit.selectors.greedy import Argmax, EpsilonGreedy
from fairbandit.selectors.group_shares import GroupChance, GroupParity, MinimumPull
from fairbandit.selectors.merit import Proportional
from fairbandit.selectors.rolling import (
    Candidates,
    Course,
    Places,
    Rolling,
    Secretary,
    SecretaryByGroup,
)

__all__ = [
    "Argmax",
    "Candidates",
    "Chain",
    "Course",
    "EpsilonGreedy",
    "FairTopK",
    "GroupChance",
    "GroupParity",
    "MinimumPull",
    "Places",
    "Proportional",
    "Ranked",
    "Rolling",
    "Secretary",
    "SecretaryByGroup",
    "Selection",
    "Selector",
    "best",
    "proportional",
    "softmax",
]
