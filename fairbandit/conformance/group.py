"""Whether a policy reads the group of a candidate when it decides, found by playing the policy.

The past and the contexts stay as they are, and one candidate of each pool changes its group. If no
such change moves a probability, then no change of several groups does: any two assignments of
groups are joined by changes of one candidate each. To rename the groups everywhere would not do,
since a policy that ranks within groups treats all groups alike.

The pasts are made, not played, so that rules that bind late or seldom take effect: after the first
rounds a group was never seen; in some pasts a group is hardly ever picked; in one past, picks are
random, and rewards are so large that confidence intervals are narrow beside their differences. Half
of the pools have candidates who are nearly equal, so that a rank within groups decides even with a
small weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise

import torch
from torch import Tensor

from fairbandit.conformance.world import BOUNDED, REFRESH, SEED, Spec, differ, made, restored
from fairbandit.environments.base import Truth
from fairbandit.history import History, Outcomes, Problem
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.streams import Streams

READS = "reads the group at the decision"  # the name of the line in checks and reports

YES, THROUGH, NO = "yes", "only if a feature holds it", "no"
"""The answers; the second one stands where the features are not known."""

STAGES = (0, 20, 1000)  # the numbers of past rounds after which the policy decides

POOLS, PLACES, FEATURES = 12, 6, 3
"""The number of pools that are decided after each past, their size, and d without the group."""

REPLICAS, PICKS = 4, (1, 2, 3)  # the number of pasts, and the numbers of picks
NEAR = 1e-6  # the distance of candidates who are nearly equal, as a share of the distance of others
LARGE = 100.0  # the factor of the rewards of the last past


def reads_group(policy: Spec | Policy, *, feature: bool = False, groups: int = 3) -> bool:
    """Whether some probability of a decision depends on the group of a candidate of the pool.

    A policy may learn from earlier groups without reading the group of a candidate. A policy that
    knows the truth plays rewards that are linear in the features. A rule that binds only after more
    than 1,000 rounds is not found.

    Args:
        policy: a policy, its name or its config. Its probabilities are compared for one, two and
            three picks.
        feature: whether the features hold the group, by itself and in products; a candidate that
            changes its group then changes its features, too.
        groups: G, at least 2.

    Raises:
        FairbanditError: the policy cannot be built, or not played with G groups.

    >>> reads_group("fair_greedy"), reads_group("greedy"), reads_group("greedy", feature=True)
    (True, False, True)
    """
    with restored(), torch.inference_mode():
        return _reads_group(made("policy", policy), feature, groups)


def answer(policy: Spec | Policy, feature: bool | None = None, groups: int = 3) -> str:
    """Returns `YES`, `NO` or, if it depends on features that are not known (None), `THROUGH`.

    The text begins with "not known" if the policy cannot be made or played.
    """
    try:
        with redirect_stdout(StringIO()):
            built = made("policy", policy)  # once, since that takes as long as a play
            if reads_group(built, groups=groups):
                return YES
            if feature is False or not reads_group(built, feature=True, groups=groups):
                return NO
    except Exception as error:  # of a plugin, or of a config that names one which is not there
        return (
            f"not known, since the policy cannot be played here ({type(error).__name__}: {error})"
        )
    return YES if feature else THROUGH


def answers(
    policies: Mapping[str, Spec | Policy], feature: bool | None = None, groups: int = 3
) -> dict[str, list[str]]:
    """Returns the names of policies by their `answer`; equal configs are played once."""
    policies_of, answer_of = {word: list[str]() for word in (YES, THROUGH, NO)}, dict[str, str]()
    for name, policy in policies.items():
        key = repr(policy)
        if key not in answer_of:
            answer_of[key] = answer(policy, feature, groups)
        policies_of.setdefault(answer_of[key], []).append(name)
    return {word: names for word, names in policies_of.items() if names}


def in_words(policies_of: Mapping[str, Sequence[str]]) -> str:
    """Returns each answer with the names of its policies; a single answer stands without names.

    >>> in_words({"yes": ["A", "B"], "no": ["C"]}), in_words({"no": ["C"]})
    ('yes (A, B); no (C)', 'no')
    """
    if len(policies_of) == 1:
        ((word, names),) = policies_of.items()
        return f"{word} (all)" if len(names) > 1 else word
    return "; ".join(f"{word} ({', '.join(names)})" for word, names in policies_of.items())


def part_answer(kind: str, spec: Spec) -> str:
    """Returns the answer of a policy, or of a part beside parts that do not read groups."""
    if kind == "policy":
        return answer(spec)
    parts = {**BOUNDED, "selector": "argmax", kind: spec}
    return answer({**parts, "refresh": REFRESH})


def _reads_group(policy: Policy, feature: bool, groups: int) -> bool:
    draws = torch.Generator().manual_seed(SEED)
    theta = torch.linspace(3, -2, FEATURES, dtype=torch.float64)
    if feature:
        theta = torch.cat([theta, torch.arange(2 * groups, dtype=torch.float64)])
    streams = Streams(SEED, [*range(REPLICAS)] * 2)  # each past twice, with the same draws
    truth = Truth(theta, lambda g, values, rounds: torch.sigmoid(values / (1 + g)))
    history = policy.init(Problem(len(theta), groups, streams, truth=truth))
    for start, rounds in pairwise((0, *STAGES)):
        if rounds:
            history = _after(policy, history, rounds - start, theta, feature, draws)
        x, codes = _pools(POOLS, groups, draws)
        x[:, ::2] = x[:, ::2, :1] + NEAR * x[:, ::2]
        place = torch.arange(PLACES) == torch.arange(POOLS)[:, None] % PLACES
        moved = torch.randint(1, groups, (POOLS, 1), generator=draws) * place
        assigned = torch.cat([codes, (codes + moved) % groups])
        pools = _features(x.repeat(2, 1, 1, 1), assigned, groups * feature), assigned
        ranked = policy.considered(history, *pools)
        for picks in PICKS:
            chances = policy.selector.select(ranked, picks).inclusion
            if bool(differ(*chances.split(REPLICAS)).any()):
                return True
    return False


def _after(
    policy: Policy,
    history: History,
    count: int,
    theta: Tensor,
    feature: bool,
    draws: torch.Generator,
) -> History:
    groups = history.problem.groups
    x, codes = _pools(count, groups, draws)
    if history.rounds == 0:  # the last group has not come yet
        codes %= groups - 1
    else:  # each pool has several groups
        codes[..., 1] = (codes[..., 0] + 1) % groups
    replica = torch.arange(REPLICAS)[:, None, None]
    last = replica == REPLICAS - 1
    # past b picks no candidate of group b if it can; the last past picks at random
    avoided = (codes == replica) & ~last
    pick = (torch.rand(codes.shape, generator=draws) + avoided).argmin(2, keepdim=True)
    x = _features(x, codes, groups * feature)
    picked = x.gather(2, pick[..., None].expand(-1, -1, -1, x.shape[3]))[:, :, 0]
    group = codes.gather(2, pick)
    noise = torch.randn(group.shape[:2], generator=draws, dtype=torch.float64)
    rewards = (picked @ theta + group[..., 0] + noise).where(~last[..., 0], LARGE * picked @ theta)
    rounds = torch.arange(count) + history.rounds + 1
    x, codes, pick, picked, group, rewards = (
        torch.cat([part] * 2) for part in (x, codes, pick, picked, group, rewards)
    )
    history = policy.open(history, x, codes)
    history = policy.tell(history, Outcomes(rounds, picked, group[..., 0], rewards))
    return policy.close(history, Selection.of(pick))


def _pools(count: int, groups: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Returns the features without the group, which differ by group, and the groups."""
    codes = torch.randint(groups, (REPLICAS, count, PLACES), generator=draws)
    x = torch.randn(*codes.shape, FEATURES, generator=draws, dtype=torch.float64)
    return x * (1 + codes[..., None]) + codes[..., None], codes


def _features(x: Tensor, codes: Tensor, indicators: int) -> Tensor:
    indicator = (codes[..., None] == torch.arange(indicators)).to(x.dtype)
    return torch.cat([x, indicator, x[..., :1] * indicator], -1)
