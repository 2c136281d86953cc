"""Statistics of the order of rewards within each group: normal scores, pairs, and a probit fit."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.special import log_ndtr

from fairbandit.errors import FairbanditError

STEPS, HALVINGS = 100, 40
CONVERGED = 1e-16
"""The squared Newton decrement below which the next step is the last."""

_LOG_ROOT_TAU = 0.9189385332046727  # log √(2π)


def normal_scores(groups: Tensor, rewards: Tensor, trains: Tensor) -> Tensor:
    """Normal scores Φ⁻¹((R − ½)/n_g), with R the mid-rank among the n_g rewards of the group.

    Args:
        groups: (B, n) int64; outcomes of group −1 do not count.
        rewards: (B, n).
        trains: which outcomes count for each of U models, (U, n) bool.

    Returns:
        (B, U, n); 0 where an outcome does not count.

    Reference:
        van der Waerden, "Order tests for the two-sample problem and their power", 1952.

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
    ⌊(j + u_j)·k/m⌋ for j = 0 … m − 1. If k ≤ P, these are all earlier outcomes.

    Args:
        groups: in order of round, (B, n) int64; outcomes of group −1 are not paired.
        rewards: (B, n).
        draws: u, uniform in [0, 1), (B, n, P).

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
    """θ = argmax Σ_p w_p·log Φ(⟨θ, z_p⟩) − λ/2·‖θ‖², by Newton's method from 0 with step halving.

    The objective is strictly concave. Each model has its own stopping rule, so that it does not
    depend on other models.

    Args:
        rows: z, (B, P, d).
        trains: w ≥ 0, the weight of each row for each model, (B, U, P).
        regularization: λ > 0.

    Returns:
        θ, (B, U, d).

    Raises:
        FairbanditError: no convergence, such as for contexts too large for double precision.
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
