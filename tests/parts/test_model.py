"""Reward models: which of them score, what ties, and what stays when some are taken."""

import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError
from fairbandit.maths.ties import upper_score
from fairbandit.parts import RewardModel


class Kernel(RewardModel):
    """Σⱼ αⱼ exp(−‖x − cⱼ‖²/(2ℓ²)), plus something for each group."""

    def __init__(self, centres: Tensor, alpha: Tensor, *, length: float, extra: Tensor) -> None:
        super().__init__(centres, alpha)
        self.length, self.extra = length, extra

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        centres, alpha = self.parameters
        apart = (contexts[..., None, :] - centres[:, :, None]).square().sum(-1)
        near = (-apart / (2 * self.length**2)).exp()
        return (near * alpha[:, :, None]).sum(-1) + self.extra[groups]


def drawn() -> tuple[Kernel, Tensor, Tensor]:
    """Three models of two replicas, and five contexts that each of them scores."""
    draws = torch.Generator().manual_seed(0)
    centres = torch.rand(2, 3, 4, 2, generator=draws, dtype=torch.float64)
    alpha = torch.rand(2, 3, 4, generator=draws, dtype=torch.float64) - 0.5
    extra = torch.tensor([0.0, 10.0], dtype=torch.float64)
    contexts = torch.rand(2, 1, 5, 2, generator=draws, dtype=torch.float64)
    groups = torch.tensor([0, 1, 1, 0, 1]).expand(2, 1, 5)
    return Kernel(centres, alpha, length=0.1, extra=extra), contexts, groups


def test_a_model_need_not_be_linear() -> None:
    model, contexts, groups = drawn()
    assert model.theta is None
    scores = model.score(contexts, groups)
    upper = model.upper_score(contexts, groups, scores)
    assert torch.equal(upper, upper_score(scores, scores.abs()))
    for b, u, m in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(5)).tolist():
        apart = (contexts[b, 0, m] - model.parameters[0][b, u]).norm(dim=1)
        score = (model.parameters[1][b, u] * (-(apart**2) / 0.02).exp()).sum()
        extra = 10.0 * int(groups[b, 0, m])
        assert float(scores[b, u, m]) == pytest.approx(float(score) + extra, rel=1e-12)


def test_bounds_are_asked_of_models_that_have_none() -> None:
    model, contexts, groups = drawn()
    with pytest.raises(
        FairbanditError,
        match=r"Kernel has no confidence bounds; estimators whose models .*: .*optimistic_ridge",
    ):
        model.bounds(contexts, groups)
