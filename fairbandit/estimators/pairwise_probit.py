"""A probit model of pairs of rewards; only the order within each group matters."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from fairbandit.errors import FairbanditError
from fairbandit.estimators.models import LinearModel, RewardModel, check_size
from fairbandit.estimators.normal_scores import OrderEstimator
from fairbandit.estimators.orders import pairs, probit_fit
from fairbandit.estimators.pieces import pieces
from fairbandit.history import Outcomes, State
from fairbandit.history.problem import Problem
from fairbandit.registry import register
from fairbandit.streams import Purpose


@register("estimator", "pairwise_probit")
class PairwiseProbit(OrderEstimator):
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

    Raises:
        FairbanditError: a hyperparameter out of range.
    """

    reference = "Varin, Reid, Firth, An overview of composite likelihood methods, 2011"

    def __init__(self, *, partners: int = 8, regularization: float = 1.0) -> None:
        super().__init__(regularization=regularization)
        if partners < 1:
            raise FairbanditError(f"partners must be at least 1, got {partners}")
        self.partners = partners

    def _models(
        self,
        problem: Problem,
        state: State,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
    ) -> RewardModel:
        at, d = outcomes.counts(n_train), problem.features
        played, x, groups, rewards = outcomes.rows(0, at[-1])
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
