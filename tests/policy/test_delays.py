"""Rewards that come late in simulation: the engine decides as an agent that is given them late."""

from itertools import cycle, product

import pytest
import torch

from fairbandit import Engine
from fairbandit.errors import FairbanditError
from fairbandit.policy.build import build_policy, preset, presets
from fairbandit.policy.engine import Delays
from tests import support
from tests.agent import worlds

ROUNDS, SEED, DELAY = 90, 3, 7


def engine(world, config, rounds=ROUNDS, replicas=(0, 1), **options) -> Engine:
    return Engine(
        build_policy(config), world, rounds=rounds, seed=SEED, replicas=replicas, **options
    )


def picks_of(made: Engine) -> torch.Tensor:
    return torch.cat([played.actions for played in made.play()], 1)


def given_late(agent, pools, law: str, picks: int = 1) -> list[list[int]]:
    """The picks of an agent that is given the rewards of round t after round t + D."""
    delays, found = Delays(DELAY, law, SEED), list[list[int]]()
    due: dict[int, list[tuple[int, list[int]]]] = {}
    for t in range(1, ROUNDS + 1):
        here = (pools.groups[0, t - 1] >= 0).nonzero()[:, 0]
        pool = pools.contexts[0, t - 1, here], pools.groups[0, t - 1, here]
        decision = agent.act(*pool, picks)
        places = [int(here[place]) for place in decision.picks]
        found.append(places)
        due.setdefault(t + delays.of_round(t), []).append((decision.ticket, places))
        for ticket, earlier in due.pop(t, []):
            rewards = pools.rewards[0, ticket - 1, earlier].tolist()
            agent.update(rewards if picks > 1 else rewards[0], ticket)
    return found


MET = cycle(product((worlds.Coarse, support.environment), ("fixed", "geometric")))


DEPLOYABLE = [name for name in presets() if "truth" not in build_policy(name).needs]


@pytest.mark.parametrize(("name", "met"), support.some(zip(DEPLOYABLE, MET, strict=False), 3))
def test_the_engine_decides_as_an_agent_given_rewards_late(name, met):
    make, law = met
    world = make()
    made = engine(world, preset(name), delay=DELAY, delay_law=law)
    theirs = picks_of(made)[0].tolist()
    pools = worlds.pools_of(world, ROUNDS, SEED)
    mine = given_late(worlds.agent_for(world, preset(name), SEED), pools, law)
    assert [place for (place,) in mine] == theirs


@pytest.mark.parametrize("name", ["fair_greedy", "minimum_pull"])
def test_several_picks_come_late_together(name):
    world = worlds.Coarse()
    theirs = picks_of(engine(world, preset(name), delay=DELAY, delay_law="geometric", picks=3))
    agent = worlds.agent_for(world, preset(name), SEED)
    mine = given_late(agent, worlds.pools_of(world, ROUNDS, SEED), "geometric", picks=3)
    assert mine == theirs[0].tolist()


def test_replicas_decide_alike_in_company_and_alone():
    options = {"delay": DELAY, "delay_law": "geometric"}
    together = picks_of(engine(worlds.Coarse(), preset("oful"), **options))
    alone = picks_of(engine(worlds.Coarse(), preset("oful"), replicas=[1], **options))
    assert torch.equal(together[1:], alone)


def test_geometric_delays_have_their_mean_and_their_law():
    delays = Delays(4, "geometric", SEED)
    drawn = torch.tensor([delays.of_round(t) for t in range(1, 5001)], dtype=torch.float64)
    # the variance is 4·5; the seed is fixed, and four standard errors are 0.25
    assert abs(float(drawn.mean()) - 4) < 0.25
    for k in (0, 1, 5):  # four standard errors of a share are at most 0.029
        assert abs(float((drawn >= k).double().mean()) - 0.8**k) < 0.029
    assert delays.of_round(17) == Delays(4, "geometric", SEED).of_round(17)


@pytest.mark.parametrize(("mean", "law"), [(-1, "fixed"), (2, "poisson")])
def test_what_is_no_delay(mean, law):
    with pytest.raises(FairbanditError, match=r"delay_law one of fixed, geometric"):
        engine(worlds.Coarse(), preset("greedy"), delay=mean, delay_law=law)
