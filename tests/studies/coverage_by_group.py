"""`python -m tests.studies.coverage_by_group`: coverage of the intervals of groups, over many logs.

Prints a Markdown table with a row for each kind of reward, policy and share of the candidates: how
many of the intervals of 95 % hold the truth. Logs have 400 decisions of five candidates of five
groups, and are logged by ε-greedy picks of the largest mean reward. Two agents that have learned
from another log are judged: Fair-Greedy, which picks the best, and the same with picks in
proportion to merit. The truth is the mean over 150,000 fresh pools.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr
from scipy.stats import binom

from fairbandit import Agent
from fairbandit.evaluation import evaluate
from fairbandit.logs import Log
from tests.evaluation.logs import rows

POLICIES: dict[str, Any] = {
    "best": "fair_greedy",
    "soft": {"name": "fair_greedy", "selector": "proportional"},
}
"""The agents that are judged."""

SHARES = np.array([0.5, 0.267, 0.2, 0.03, 0.003])
"""The groups' shares of the candidates; the last has some six candidates in a log."""

LABELS = ("50%", "27%", "20%", "3%", "six")

THETA = np.array([1.0, -0.7, 0.4])
OFFSETS, SPREADS = np.array([0.0, 1.5, -0.5, 0.5, 0.0]), np.array([1.0, 0.6, 1.3, 1.0, 1.0])
"""The groups' mean rewards, and the standard deviations of their features."""

POOL, TRUTH, TESTED = 5, 150_000, 0.93

KINDS = ("normal", "binary")
"""Rewards with normal noise, or 1 with a probability that grows with the mean, and else 0."""

Found = dict[tuple[str, str, str], bool]


def pools(n: int, draw: np.random.Generator) -> tuple[Any, Any, Any]:
    """Groups, (n, K), features, (n, K, 3), and the part of the reward that features explain."""
    groups = draw.choice(len(SHARES), p=SHARES, size=(n, POOL))
    features = draw.normal(size=(n, POOL, len(THETA))) * SPREADS[groups][..., None]
    return groups, features, features @ THETA


def mean_reward(kind: str, groups: Any, merit: Any) -> Any:
    """The mean reward of each candidate."""
    mean = merit + OFFSETS[groups]
    return mean if kind == "normal" else 0.02 + 0.3 * ndtr(mean - 1)


def log_of(kind: str, n: int, draw: np.random.Generator) -> Log:
    """A log of ε-greedy picks: the largest mean has probability 0.6, and each other 0.1."""
    groups, features, merit = pools(n, draw)
    mean = mean_reward(kind, groups, merit)
    chances = np.full((n, POOL), 0.5 / POOL)
    chances[np.arange(n), mean.argmax(1)] += 0.5
    picks = (draw.random((n, 1)) < chances.cumsum(1)).argmax(1)[:, None]
    means = np.take_along_axis(mean, picks, 1)
    rewards = means + draw.normal(size=(n, 1))
    if kind == "binary":
        rewards = (draw.random((n, 1)) < means).astype(float)
    contexts = np.concatenate([features, np.eye(len(SHARES))[groups]], axis=2)
    return Log(
        **rows(groups, contexts=contexts, probabilities=chances),
        labels=LABELS,
        picks=picks,
        rewards=rewards,
        propensities=np.take_along_axis(chances, picks, 1),
        features=("x", "y", "z", *LABELS),
        names=range(n),
    )


@cache
def judged(kind: str) -> dict[str, tuple[Agent, dict[str, float]]]:
    """The agents by name, each with the truth."""
    torch.set_num_threads(1)
    trained = log_of(kind, 400, np.random.default_rng(10**6))
    agents = {name: Agent.from_log(policy, trained) for name, policy in POLICIES.items()}
    groups, features, merit = pools(TRUTH, np.random.default_rng(10**7))
    contexts = np.concatenate([features, np.eye(len(SHARES))[groups]], axis=2)
    mean, spread = mean_reward(kind, groups, merit), float(np.linalg.norm(THETA))
    values = {"reward": mean, "rank": ndtr(merit / SPREADS[groups] / spread)}
    values["fair_regret"] = values["rank"].max(1, keepdims=True) - values["rank"]
    if kind == "normal":  # two rewards of a group, each with its noise
        values["win"] = ndtr(merit / np.hypot(SPREADS[groups] * spread, 2**0.5))
    else:  # direct estimates assume a linear model, which a probability is not
        values = {"reward": mean}
    return {
        name: (agent, _truth(agent, groups, contexts, values)) for name, agent in agents.items()
    }


def _truth(agent: Agent, groups: Any, contexts: Any, values: dict[str, Any]) -> dict[str, float]:
    chances = agent.probabilities(contexts, groups, LABELS, 1)
    found = {name: float((chances * of).sum() / len(groups)) for name, of in values.items()}
    for code, label in enumerate(LABELS):
        own = chances * (groups == code)
        found[f"share:{label}"] = own.sum() / len(groups)
        found[f"selection:{label}"] = own.sum() / (groups == code).sum()
        found |= {f"{name}:{label}": (own * of).sum() / own.sum() for name, of in values.items()}
    return found


def held(job: tuple[str, int, int]) -> list[tuple[Found, Found]]:
    """Whether each interval holds the truth, and whether it is finite, in some logs."""
    torch.set_num_threads(1)
    kind, first, stop = job
    agents = {name: agent for name, (agent, _) in judged(kind).items()}
    right = {name: truth for name, (_, truth) in judged(kind).items()}
    found = []
    for seed in range(first, stop):
        log = log_of(kind, 400, np.random.default_rng(seed))
        table = evaluate(log, agents, train=0, seed=seed)
        rows = [row for row in table.itertuples() if row.measure in right.get(row.policy, ())]
        rows = [row for row in rows if kind == "normal" or row.estimator != "direct"]
        keys = [(row.policy, row.measure, row.estimator) for row in rows]
        holds = [row.low <= right[row.policy][row.measure] <= row.high for row in rows]
        finite = [bool(np.isfinite(row.high - row.low)) for row in rows]
        found.append((dict(zip(keys, holds, strict=True)), dict(zip(keys, finite, strict=True))))
    return found


def entries(found: list[tuple[Found, Found]], kind: str) -> Iterator[list[str]]:
    """Yields the rows of the table: coverage by measure and estimator, in bold if too small."""
    counts, finite = defaultdict[Any, list[bool]](list), defaultdict[Any, list[bool]](list)
    for holds, ends in found:
        for key, own in holds.items():
            counts[key].append(own)
            finite[key].append(ends[key])
    columns = dict.fromkeys((measure.partition(":")[0], of) for _, measure, of in counts)
    yield ["rewards", "policy", "group", *(" ".join(column) for column in columns)]
    for policy in POLICIES:
        for label in ("all", *LABELS):
            row = [kind, policy, label]
            for measure, estimator in columns:
                name = measure if label == "all" else f"{measure}:{label}"
                held_by = counts.get((policy, name, estimator), [])
                text = f"{np.mean(held_by):.1%}" if held_by else "–"
                if held_by and binom.cdf(sum(held_by), len(held_by), TESTED) < 0.001:
                    text = f"**{text}**"
                if held_by and (share := np.mean(finite[policy, name, estimator])) < 1:
                    text += f" ({share:.0%})"
                row.append(text)
            yield row


def main() -> None:
    """Prints the table; the share of finite intervals is in brackets unless all are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=400)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        for kind in given.kinds:
            step = -(-given.logs // given.processes)
            jobs = [(kind, k, min(k + step, given.logs)) for k in range(0, given.logs, step)]
            rows = entries([one for part in pool.map(held, jobs) for one in part], kind)
            head = next(rows)
            print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
            for row in rows:
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
