"""Reward models: which of them score, what ties, and what stays when some are taken."""

import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError
from fairbandit.maths.ties import upper_score
from fairbandit.parts import LinearModel, RewardModel, Unlearned


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


def test_what_is_taken_keeps_its_settings() -> None:
    model, contexts, groups = drawn()
    whole, numbers = model.score(contexts, groups), torch.tensor([2, 0, 0, 1])
    some = model.take(numbers)
    assert (len(model), len(some)) == (3, 4)
    assert (some.length, type(some)) == (0.1, Kernel)
    own = contexts.expand(2, 4, 5, 2), groups.expand(2, 4, 5)
    torch.testing.assert_close(some.score(*own), whole[:, numbers])
    torch.testing.assert_close(model.score(contexts, groups), whole)  # it is as it was


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


def test_bounds_of_what_was_never_learned() -> None:
    _, contexts, groups = drawn()
    model = Unlearned(torch.zeros(2, 1, 2, dtype=torch.float64))
    low, high = model.bounds(contexts, groups)
    assert low.shape == high.shape == (2, 1, 5)
    assert bool((low == -torch.inf).all() & (high == torch.inf).all())
    assert bool((model.score(contexts, groups) == 0).all())


def test_a_linear_model_ties_by_its_terms() -> None:
    """Terms that cancel leave rounding that is large beside the score."""
    theta = torch.tensor([[[1e9, -1e9, 1.0]]], dtype=torch.float64)
    contexts = torch.tensor([[[[1.0, 1.0, 0.5]]]], dtype=torch.float64)
    groups = torch.zeros(1, 1, 1, dtype=torch.int64)
    model = LinearModel(theta)
    scores = model.score(contexts, groups)
    above = float((model.upper_score(contexts, groups, scores) - scores).item())
    assert above == pytest.approx(8 * torch.finfo(torch.float64).eps * 2e9, rel=1e-6)
