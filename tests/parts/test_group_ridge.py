"""Ridge regression that tells groups apart: its numbers, its growth, its accuracy."""

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Agent
from fairbandit.parts import GroupRidge, Outcomes, Problem, Shared
from fairbandit.streams import Streams

GROUPS, FEATURES = 3, 2


def problem(groups: int = GROUPS) -> Problem:
    return Problem(FEATURES, groups, Streams(0, [0]))


def outcomes(count: int, groups: int = GROUPS, seed: int = 0) -> Outcomes:
    draws = np.random.default_rng(seed)
    x, r = draws.normal(size=(1, count, FEATURES)), draws.normal(size=(1, count))
    g = draws.integers(0, groups, (1, count))
    return Outcomes(torch.from_numpy(x), torch.from_numpy(g), torch.from_numpy(r))


def scores(estimator: GroupRidge, n: int, given: Outcomes, x: Any, g: Any) -> Any:
    """The scores of contexts (m, d) of groups (m,) after n rounds."""
    model, _ = estimator.models(torch.tensor([n + 1]), torch.tensor([n]), given)
    assert model.theta is None
    return model.score(torch.as_tensor(x)[None, None], torch.as_tensor(g)[None, None])[0, 0]


@pytest.mark.parametrize("shared", Shared)
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_group_that_appears_was_as_if_known_and_never_seen(shared: Shared, scale: float) -> None:
    """Also where V is so ill-conditioned that the rows themselves are kept."""
    known, met = GroupRidge(shared=shared), GroupRidge(shared=shared)
    early, late = outcomes(20, GROUPS - 1), outcomes(10, seed=1)
    early, late = (part._replace(contexts=part.contexts * scale) for part in (early, late))
    known.bind(problem())
    met.bind(problem(GROUPS - 1))
    for n, given in enumerate((early, late)):
        if n == 1:
            met.grow(problem())
        for estimator in (known, met):
            estimator.commit(20 + 10 * n, given)
    x = np.random.default_rng(2).normal(size=(9, FEATURES))
    nothing = Outcomes(*(part[:, :0] for part in late))
    one, other = (scores(e, 30, nothing, x, np.arange(9) % GROUPS) for e in (known, met))
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    known.load_state(met.state())


@pytest.mark.parametrize("shared", ["slopes", "nothing"])
def test_online_from_no_group_on(shared: str, tmp_path) -> None:
    """Rewards of opposite sign in two groups; with offsets, of another level."""
    estimator = {"name": "group_ridge", "shared": shared}
    settings = {"split": "full", "estimator": estimator, "rank": "identity"}
    agent = Agent.from_config(settings, features=1, refresh=1.1)
    agent.observe(np.ones((20, 1, 1)), [["low"]] * 20, [0] * 20, [-1.0] * 20)
    agent.observe(np.ones((20, 1, 1)), [["high"]] * 20, [0] * 20, [1.0] * 20)
    agent.save(tmp_path / "agent")
    for asked in (agent, Agent.load(tmp_path / "agent")):
        picks = [asked.act([[1.0], [1.0]], labels) for labels in (["low", "high"], ["high", "low"])]
        assert [pick.candidate for pick in picks] == [1, 0]
        assert asked.act([[1.0], [1.0]], ["low", "new"]).candidate == 1
