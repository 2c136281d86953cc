"""Estimators that read only the order of rewards within each group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad
from torch.special import log_ndtr

from fairbandit.errors import FairbanditError
from fairbandit.estimators.base import Estimator, LinearModel, RewardModel, Rounds, check_size
from fairbandit.history import Outcomes, Problem, State
from fairbandit.registry import Count, Positive, register
from fairbandit.streams import Purpose

STEPS, HALVINGS = 100, 40
CONVERGED = 1e-16  # the squared Newton decrement below which the next step is the last

_LOG_ROOT_TAU = 0.9189385332046727  # log √(2π)


def normal_scores(groups: Tensor, rewards: Tensor, trains: Tensor) -> Tensor:
    """Normal scores Φ⁻¹((R − ½)/n_g), with R the mid-rank among the n_g rewards of the group.

    Args:
        groups, rewards: (B, n); outcomes of group −1 do not count.
        trains: which outcomes count for each of U models, (U, n) bool.

    Returns:
        (B, U, n); 0 where an outcome does not count.

    >>> g, every = torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 3, dtype=torch.bool)
    >>> normal_scores(g, torch.tensor([[5.0, 1.0, 5.0]]).double(), every)
    tensor([[[ 0.4307, -0.9674,  0.4307]]], dtype=torch.float64)
    """
    by_reward = rewards.argsort(dim=1, stable=True)
    order = by_reward.gather(1, groups.gather(1, by_reward).argsort(dim=1, stable=True))
    g, r = groups.gather(1, order), rewards.gather(1, order)
    fresh = torch.ones_like(g, dtype=torch.bool)
    fresh[:, 1:] = (g[:, 1:] != g[:, :-1]) | (r[:, 1:] != r[:, :-1])
    tied = fresh.cumsum(1)  # the number of the run of equal rewards in a group
    counts = trains.T[order].mT & (g >= 0)[:, None]  # (B, U, n)
    before = torch.nn.functional.pad(counts.cumsum(2), (1, 0)).to(rewards.dtype)

    def up_to(runs: Tensor, right: bool) -> Tensor:
        at = torch.searchsorted(runs, runs, right=right)[:, None]
        return before.gather(2, at.expand_as(counts))

    first, low, high = up_to(g, False), up_to(tied, False), up_to(tied, True)
    share = ((low + high) / 2 - first) / (up_to(g, True) - first).clamp(min=1)
    scores = torch.special.ndtri(share).where(counts, 0.0)
    return torch.empty_like(scores).scatter_(2, order[:, None].expand_as(scores), scores)


def pairs(groups: Tensor, rewards: Tensor, draws: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs each outcome with up to P earlier outcomes of its group, by stratified sampling.

    With k earlier outcomes and m = min(P, k), the partners are the earlier outcomes number
    ⌊(j + u_j)·k/m⌋ for j = 0 … m − 1. Groups and rewards are (B, n) in order of round, with group
    −1 for outcomes that are not paired; draws u are uniform in [0, 1), (B, n, P).

    Returns:
        The positions of the partners, (B, n, P); the sign of the outcome's reward minus the
        partner's reward, 0 without a partner, (B, n, P); and the number k/m of earlier outcomes
        that each partner represents, (B, n).
    """
    ordered, order = groups.sort(dim=1, stable=True)
    start = torch.searchsorted(ordered, ordered)  # where the group of each starts
    place = torch.arange(groups.shape[1], device=groups.device).expand_as(order)
    home, starts = (
        torch.empty_like(order).scatter_(1, order, values)[..., None] for values in (place, start)
    )
    earlier, part = home - starts, torch.arange(draws.shape[2], device=groups.device)
    drawn = earlier.clamp(max=len(part))
    stands_for = earlier / drawn.clamp(min=1)
    chosen = ((part + draws) * earlier / drawn.clamp(min=1)).long()
    chosen = starts + torch.minimum(chosen, (earlier - 1).clamp(min=0))
    partner = order[:, :, None].expand_as(chosen).gather(1, chosen)
    against = rewards[:, :, None].expand_as(draws).gather(1, partner)
    sign = (rewards[..., None] - against).sign()
    sign = sign.where((part < drawn) & (groups >= 0)[..., None], 0.0)
    return partner, sign, stands_for[..., 0].to(rewards.dtype)


def probit_fit(rows: Tensor, trains: Tensor, regularization: float) -> Tensor:
    """θ = argmax Σ_p w_p·log Φ(⟨θ, z_p⟩) − λ/2·‖θ‖², (B, U, d), for z (B, P, d), w (B, U, P).

    Newton's method starts from 0, with step halving. The objective is strictly concave. Each model
    has its own stopping rule, so that it does not depend on other models.
    """
    theta = rows.new_zeros(*trains.shape[:2], rows.shape[2])
    ridge = regularization * torch.eye(rows.shape[2], dtype=rows.dtype, device=rows.device)
    running = torch.ones_like(theta[..., 0], dtype=torch.bool)

    def objective(at: Tensor, log: Tensor) -> Tensor:
        return (trains * log).sum(2) - regularization / 2 * at.square().sum(2)

    for _ in range(STEPS):
        margin = theta @ rows.mT
        log = log_ndtr(margin)
        mills = torch.exp(-margin.square() / 2 - _LOG_ROOT_TAU - log)
        slope = (trains * mills) @ rows - regularization * theta
        weights = trains * mills * (margin + mills)
        curvature = (weights[..., None] * rows[:, None]).mT @ rows[:, None] + ridge
        if not bool(running.any()):
            return theta
        root, failed = torch.linalg.cholesky_ex(curvature)
        if bool(failed.any()) or not bool(slope.isfinite().all()):
            break
        step = torch.cholesky_solve(slope[..., None], root)[..., 0]
        decrement = (step * slope).sum(2)
        scale, now = running.to(rows.dtype), objective(theta, log)
        least = now - 1e-12 * (1 + now.abs())  # rounding moves the objective by less
        for _ in range(HALVINGS):
            moved = theta + scale[..., None] * step
            worse = objective(moved, log_ndtr(moved @ rows.mT)) < least
            if not bool(worse.any()):
                break
            scale = scale.where(~worse, scale / 2)
        theta, running = moved, running & (decrement > CONVERGED)
    raise FairbanditError(
        f"the probit likelihood has not converged after {STEPS} steps of Newton's method; expected "
        f"contexts of moderate size, got two that differ by {rows.abs().max():.3g}"
    )


PIECE = 1 << 22
"""The most numbers in the largest tensor of a fit; further models are fitted afterwards."""


def pieces(models: int, each: int) -> Iterator[slice]:
    """Divides models 0 … U − 1 into slices whose rows hold at most `PIECE` numbers together."""
    step = max(1, PIECE // max(each, 1))
    for start in range(0, models, step):
        yield slice(start, min(start + step, models))


@register("estimator", "normal_scores")
@dataclass(kw_only=True, eq=False)
class NormalScores(Estimator):
    """Ridge regression on normal scores, for rewards under an unknown increasing function.

    If the rewards of group g are Y = h_g(⟨θ, x⟩ + ε) with h_g increasing and unknown, Y and
    ⟨θ, x⟩ + ε have the same ranks. A reward with the mid-rank R_i among n_g rewards of its group
    becomes z_i = Φ⁻¹((R_i − ½)/n_g). Its context becomes w_i = (x_i − x̄_g)/s_g, where s_g² is the
    mean of ‖x_i − x̄_g‖², and θ = (Σ w_i w_iᵀ + λI)⁻¹ Σ w_i z_i. A common scale s_g of all features
    keeps the direction of θ. Scores are comparable only within a group. A policy should set
    `refresh`, since all outcomes are fitted anew.

    Args:
        regularization: λ > 0.
    """

    reference = "van der Waerden, Order tests for the two-sample problem and their power, 1952"
    needs = frozenset({"rewards"})

    regularization: Positive = 1.0

    def _models(
        self, problem: Problem, state: State, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        at, d = outcomes.counts(n_train), problem.features
        _, x, groups, rewards = outcomes
        member = one_hot(groups + 1, problem.groups + 1)[..., 1:].to(x.dtype)  # (B, n, G)
        penalty = self.regularization * torch.eye(d, dtype=x.dtype, device=x.device)
        parts = list[tuple[Tensor, Tensor]]()
        for piece in pieces(len(at), x.numel()):
            n = torch.tensor(at[piece], device=x.device)
            trains = torch.arange(at[-1], device=x.device) < n[:, None]  # (U, n)
            members = (member[:, None] * trains[..., None]).mT  # (B, U, G, n)
            count = members.sum(3, keepdim=True).clamp(min=1)
            means = members @ x[:, None] / count
            w = x[:, None] - member[:, None] @ means
            squares = members @ w.square().sum(3, keepdim=True) / count
            scale = member[:, None] @ squares.rsqrt().where(squares > 0, 0.0)
            w = w * scale * trains[..., None]
            z = normal_scores(groups, rewards, trains)
            parts.append((w.mT @ w + penalty, w.mT @ z[..., None]))
        equations, sums = (torch.cat(terms, 1) for terms in zip(*parts, strict=True))
        theta = torch.cholesky_solve(sums, torch.linalg.cholesky(equations))[..., 0]
        return LinearModel(theta)


@register("estimator", "pairwise_probit")
@dataclass(kw_only=True, eq=False)
class PairwiseProbit(Estimator):
    """Probit model of pairs of rewards, for rewards under an unknown increasing function.

    If the rewards of group g are Y = h_g(⟨θ, x⟩ + σξ) with ξ standard normal and h_g increasing and
    unknown, then P(Y_i > Y_j) = Φ(⟨θ, x_i − x_j⟩/(√2·σ)) for i and j of group g. The
    estimate of θ/(√2·σ), which orders candidates like θ, maximises the composite likelihood of the
    pairs of each group, in which each of the group's n_g outcomes has the total weight 1:

        argmax Σ_g (n_g − 1)⁻¹ Σ_{i>j in g} log Φ(±⟨θ, x_i − x_j⟩) − λ/2·‖θ‖²,

    with + where Y_i > Y_j and − where Y_i < Y_j; pairs of equal rewards are ignored. If an outcome
    has k > `partners` earlier outcomes in its group, they are divided into `partners` equal parts,
    and one outcome drawn from each part represents k/partners pairs. All picks of a round share its
    draws. Newton's method with step halving starts from 0. Scores are comparable only within a
    group. A policy should set `refresh`, since all outcomes are fitted anew.

    Args:
        partners: the most pairs of an outcome with earlier outcomes, at least 1.
        regularization: λ > 0.
    """

    reference = "Varin, Reid, Firth, An overview of composite likelihood methods, 2011"
    needs = frozenset({"rewards"})

    partners: Count = 8
    regularization: Positive = 1.0

    def _models(
        self, problem: Problem, state: State, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        at, d = outcomes.counts(n_train), problem.features
        played, x, groups, rewards = outcomes
        check_size(x, self.regularization)
        if bool((played[1:] == played[:-1]).any()):  # order of arrival must not matter
            order = torch.arange(len(played), device=x.device).expand_as(rewards)
            for key in (*x.unbind(2), groups, rewards, played.expand_as(rewards)):
                order = order.gather(1, key.gather(1, order).argsort(dim=1, stable=True))
            x = x.gather(1, order[..., None].expand_as(x))
            groups, rewards = groups.gather(1, order), rewards.gather(1, order)
        draws = problem.zeros(problem.replicas, 0, self.partners)
        if at[-1]:
            stream, first = problem.streams[Purpose.ESTIMATOR], int(played[0])
            draws = stream.uniform(first, int(played[-1]) - first + 1, self.partners)
            draws = draws[:, played - first]
        partner, sign, stands_for = pairs(groups, rewards, draws)
        second = x.gather(1, partner.flatten(1)[..., None].expand(-1, -1, d)).view(*sign.shape, d)
        rows = (sign[..., None] * (x[:, :, None] - second)).flatten(1, 2)
        member = one_hot(groups + 1, problem.groups + 1)[..., 1:]
        sizes = pad(member.cumsum(1), (0, 0, 1, 0))  # of each group after 0 … n outcomes
        thetas = list[Tensor]()
        for piece in pieces(len(at), rows.numel()):
            n = torch.tensor(at[piece], device=x.device)[:, None]
            pick = torch.arange(at[piece][-1], device=x.device).repeat_interleave(self.partners)
            group = groups[:, None, pick].clamp(min=0).expand(-1, len(n), -1)
            n_others = (sizes[:, n[:, 0]].gather(2, group) - 1).clamp(min=1)
            pair_counts = (sign.abs() * stands_for[..., None]).flatten(1)[:, None, : len(pick)]
            trains = (pair_counts / n_others).where(pick < n, 0.0)  # (B, U, P)
            thetas.append(probit_fit(rows[:, : len(pick)], trains, self.regularization))
        return LinearModel(torch.cat(thetas, 1))
