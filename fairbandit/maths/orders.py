"""Statistics of the order of rewards within each group: normal scores, pairs, and a probit fit."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.special import log_ndtr

from fairbandit.errors import FairbanditError

PIECE = 1 << 22
"""The most numbers in the largest tensor of a fit; more models are fitted one after the other."""

STEPS, HALVINGS = 100, 40
CONVERGED = 1e-16
"""The squared Newton decrement below which one further step is the last."""

_LOG_ROOT_TAU = 0.9189385332046727  # log √(2π)


def pieces(models: int, each: int) -> Iterator[slice]:
    """Models number 0 … U − 1, so many at once that their rows hold at most `PIECE` numbers."""
    step = max(1, PIECE // max(each, 1))
    for start in range(0, models, step):
        yield slice(start, min(start + step, models))


def normal_scores(groups: Tensor, rewards: Tensor, trains: Tensor) -> Tensor:
    """Φ⁻¹((R − ½)/n_g), R being the mid-rank of each reward among the n_g of its group.

    Args:
        groups: (B, n) int64; those of −1 have no part.
        rewards: (B, n).
        trains: which of the outcomes count for each of U models, (U, n) bool.

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
    tied = fresh.cumsum(1)  # the number of each run of equal rewards of a group
    counts = trains.T[order].mT & (groups.gather(1, order) >= 0)[:, None]  # (B, U, n)
    before = torch.nn.functional.pad(counts.cumsum(2), (1, 0)).to(rewards.dtype)

    def up_to(runs: Tensor, right: bool) -> Tensor:
        at = torch.searchsorted(runs, runs, right=right)[:, None]
        return before.gather(2, at.expand_as(counts))

    first, low, high = up_to(g, False), up_to(tied, False), up_to(tied, True)
    share = ((low + high) / 2 - first) / (up_to(g, True) - first).clamp(min=1)
    found = torch.special.ndtri(share).where(counts, 0.0)
    return torch.empty_like(found).scatter_(2, order[:, None].expand_as(found), found)


def pairs(groups: Tensor, rewards: Tensor, draws: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs each outcome with P earlier ones of its group, one of each P-th part of them.

    If its group has k earlier outcomes, the partners are number ⌊(j + u_j)·k/m⌋ of them, for
    j = 0 … m − 1 with m = min(P, k): all of them if they are at most P.

    Args:
        groups: in order of round, (B, n) int64; those of −1 make no pair.
        rewards: (B, n).
        draws: u, uniform in [0, 1), (B, n, P).

    Returns:
        The partners' positions, (B, n, P); 1 where the outcome has the greater reward, −1 where it
        has the lesser one, and 0 where there is no pair or rewards are equal, (B, n, P); and for
        how many earlier ones each partner stands, k/m, (B, n).
    """
    ordered, order = groups.sort(dim=1, stable=True)
    start = torch.searchsorted(ordered, ordered)  # where each one's group starts
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
    own = rewards[..., None]
    sign = (own > against).to(rewards.dtype) - (own < against).to(rewards.dtype)
    sign = sign.where((part < drawn) & (groups >= 0)[..., None], 0.0)
    return partner, sign, stands_for[..., 0].to(rewards.dtype)


def probit_fit(rows: Tensor, trains: Tensor, regularization: float) -> Tensor:
    """θ = argmax Σ_p w_p·log Φ(⟨θ, z_p⟩) − λ/2·‖θ‖², by Newton's method from 0 with step halving.

    The objective is strictly concave. Each model stops by itself, so that it does not depend on
    the others.

    Args:
        rows: z, (B, P, d).
        trains: w, what each row counts for each model, at least 0, (B, U, P).
        regularization: λ > 0.

    Returns:
        θ, (B, U, d).

    Raises:
        FairbanditError: it does not converge, as with contexts too large for double precision.
    """
    theta = rows.new_zeros(*trains.shape[:2], rows.shape[2])
    ridge = regularization * torch.eye(rows.shape[2], dtype=rows.dtype, device=rows.device)
    running = torch.ones_like(theta[..., 0], dtype=torch.bool)

    def value(at: Tensor, log: Tensor) -> Tensor:
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
        scale, now = running.to(rows.dtype), value(theta, log)
        least = now - 1e-12 * (1 + now.abs())  # rounding moves the value by less
        for _ in range(HALVINGS):
            moved = theta + scale[..., None] * step
            worse = value(moved, log_ndtr(moved @ rows.mT)) < least
            if not bool(worse.any()):
                break
            scale = scale.where(~worse, scale / 2)
        theta, running = moved, running & (decrement > CONVERGED)
    raise FairbanditError(
        f"the probit likelihood has not converged after {STEPS} steps of Newton's method; expected "
        f"contexts of moderate size, and the largest difference of two is {rows.abs().max():.3g}"
    )
