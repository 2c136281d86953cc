"""Sums over windows of the past against loops, for any pools, windows and models."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import FairbanditError
from fairbandit.parts import Candidates, Division, History, LinearModel, Past, Problem
from fairbandit.parts import past as past_module
from fairbandit.parts import tiles as tiles_module
from fairbandit.streams import Purpose, Streams


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 4), st.sampled_from([8, 10**6]))
def test_counts_and_sums(seed: int, models: int, groups: int, tile: int) -> None:
    draws = np.random.default_rng(seed)
    b, k, d, rounds, asked = 2, 3, 2, 30, 6
    problem = Problem(d, groups, Streams(0, range(b)))
    history = History(problem, {"contexts"})
    x = torch.from_numpy(draws.integers(-2, 3, (b, rounds, k, d)).astype(float))
    s = torch.from_numpy(draws.integers(-1, groups, (b, rounds, k)))
    absent = torch.from_numpy(draws.random((groups + 1, d)) < 0.3)  # features of other groups alone
    x = x.masked_fill(absent[s], 0)
    for low, high in ((0, 1), (1, 17), (17, rounds)):
        history.add_pools(x[:, low:high], s[:, low:high])
    first = rounds - asked
    until = torch.arange(first, rounds)
    after = torch.from_numpy(np.sort(draws.integers(0, first + 1, asked)))
    of_round = torch.from_numpy(np.sort(draws.integers(0, models, asked)))
    theta = torch.from_numpy(draws.integers(-2, 3, (b, models, d)).astype(float))
    own = (x[:, first:] * theta[:, of_round][:, :, None]).sum(-1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles_module, "TILE", tile)
        patch.setattr(past_module, "FEW", 0 if tile == 8 else 64)
        window = Past(
            history.contexts,
            Division(after, after, until),
            s[:, first:],
            LinearModel(theta),
            of_round,
        )
        below, total = window.at_most(own), window.sum(lambda old: old)
        everyone = window.of(torch.arange(groups).expand(b, asked, k, groups).flatten(2))
        wide = own.repeat_interleave(groups, 2)
        each = everyone.at_most(wide).view(b, asked, k, groups)
    for r in range(b):
        for n in range(asked):
            for a in range(k):
                g = int(s[r, first + n, a])
                stretch = slice(int(after[n]), int(until[n]))
                old = (x[r, stretch] @ theta[r, of_round[n]])[s[r, stretch] == g]
                old = old if g >= 0 else old[:0]
                assert int(window.count[r, n, a]) == len(old)
                assert int(below[r, n, a]) == int((old <= own[r, n, a]).sum())
                assert float(total[r, n, a]) == pytest.approx(float(old.sum()), abs=1e-9)
                for group in range(groups):
                    members = (x[r, stretch] @ theta[r, of_round[n]])[s[r, stretch] == group]
                    assert int(each[r, n, a, group]) == int((members <= own[r, n, a]).sum())
                    assert int(window.every.count[r, n, group]) == len(members)
                    mean, variance = (
                        float(moment[r, n, group])
                        for moment in (window.every.mean, window.every.variance)
                    )
                    if len(members):
                        assert mean == pytest.approx(float(members.mean()), abs=1e-9)
                        truth = float(members.var(correction=0))
                        assert variance == pytest.approx(truth, abs=1e-9)
                    else:
                        assert np.isnan([mean, variance]).all()


@pytest.mark.parametrize("alike", [True, False])
def test_nobody_asks(alike: bool) -> None:
    """Nobody's sums are as large as anybody's, whether replicas are alike or not."""
    problem = Problem(1, 1, Streams(0, range(2)))
    history = History(problem, {"contexts"})
    groups = torch.zeros(2, 9, 1).long()
    groups[0, 3] = 0 if alike else -1
    history.add_pools(torch.ones(2, 9, 1, 1).double(), groups)
    rounds = torch.arange(4, 9)
    model, of_round = LinearModel(torch.ones(2, 1, 1).double()), torch.zeros(5).long()
    past = Past(
        history.contexts, Division(rounds, 0 * rounds, rounds), groups[:, 4:], model, of_round
    )
    nobody = past.of(torch.full((2, 5, 3), -1))
    assert torch.equal(nobody.sum(lambda old: old), torch.zeros(2, 5, 3).double())
    assert torch.equal(nobody.at_most(torch.ones(2, 5, 3).double()), torch.zeros(2, 5, 3).double())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_forgetting_changes_no_later_answer(seed: int) -> None:
    draws = np.random.default_rng(seed)
    problem = Problem(1, 2, Streams(0, range(2)))
    kept, lean = History(problem, {"contexts"}), History(problem, {"contexts"})
    model, of_round = LinearModel(torch.ones(2, 1, 1, dtype=torch.float64)), torch.zeros(1).long()
    played = after = 0
    for _ in range(12):
        n = int(draws.integers(1, 150))
        x = torch.from_numpy(draws.normal(size=(2, n, 3, 1)))
        s = torch.from_numpy((draws.random((2, n, 3)) < 0.2).astype(np.int64))
        for history in (kept, lean):
            history.add_pools(x, s)
        played += n
        after = int(draws.integers(after, played))
        spans = Division(*(torch.tensor([v]) for v in (after, after, played)))
        answers = [
            Past(history.contexts, spans, s[:, -1:], model, of_round).at_most(x[:, -1:, :, 0])
            for history in (kept, lean)
        ]
        assert torch.equal(*answers)
        lean.forget(outcomes=0, contexts=after, picks=0)
        copy = History(problem, {"contexts"})
        copy.load_state(lean.state())
        lean = copy


def test_a_long_window_is_counted_whole() -> None:
    problem = Problem(1, 1, Streams(0, [0]))
    history = History(problem, {"contexts"})
    history.add_pools(
        torch.zeros(1, 5000, 1, 1, dtype=torch.float64), torch.zeros(1, 5000, 1).long()
    )
    spans = Division(*(torch.tensor([v]) for v in (0, 0, 5000)))
    model = LinearModel(torch.ones(1, 1, 1, dtype=torch.float64))
    window = Past(
        history.contexts, spans, torch.zeros(1, 1, 1).long(), model, torch.zeros(1).long()
    )
    assert float(window.at_most(torch.zeros(1, 1, 1, dtype=torch.float64))) == 5000


def test_a_rank_that_did_not_declare_contexts() -> None:
    problem = Problem(1, 1, Streams(0, [0]))
    one = torch.zeros(1).long()
    asked = Candidates(
        1,
        Division(one, one, one),
        torch.zeros(1, 1, 1, 1),
        torch.zeros(1, 1, 1).long(),
        LinearModel(torch.zeros(1, 1, 1)),
        one,
        History(problem, ()),
        problem.streams[Purpose.RANK],
    )
    with pytest.raises(FairbanditError, match="declare needs"):
        _ = asked.past
    with pytest.raises(FairbanditError, match=r"a part can need \['contexts', 'rewards'\]"):
        History(problem, {"prices"})
