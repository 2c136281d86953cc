"""fairbandit's Agent, its engine, the literal loop and other libraries, on one replica's pools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from fairbandit.environments import Environment
from tests import literal, support
from tests.benchmarks.measure import threads, timed
from tests.benchmarks.players import LinUcb, MissingError, Ours, Player, Vowpal, VowpalText, pace
from tests.benchmarks.rows import Row
from tests.benchmarks.worlds import SIMULATION, Bench, Scale, built, ethnicity, pools, truth

SIZES = {Scale.full: (5000, 2500), Scale.quick: (1000, 1000), Scale.tiny: (30, 30)}
"""Rounds of the simulation and of the ethnicity shape."""

POLICY = "fair_greedy"


def libraries(bench: Bench) -> Iterator[Row]:
    """Mean seconds a round, predict and learn, from the first round on."""
    rounds, ethnic = SIZES[bench.scale]
    simulation, census = built(SIMULATION), built(ethnicity(bench.folder))
    linucb = {LinUcb.name: partial(LinUcb, simulation.features, simulation.places)}
    with threads():
        yield from _beside(bench, "simulation", simulation, rounds, linucb)
        yield from _beside(bench, "ethnicity shape", census, ethnic, {})


def _beside(
    bench: Bench,
    title: str,
    world: Environment,
    rounds: int,
    others: Mapping[str, Callable[[], Player]],
) -> Iterator[Row]:
    d, groups = world.features, len(world.group_names)
    players: dict[str, Callable[[], Player]] = {
        Ours.name: partial(Ours, POLICY, d, groups),
        Vowpal.name: partial(Vowpal, d),
        VowpalText.name: partial(VowpalText, d),
        **others,
    }
    ways = {name: partial(_paced, make, world, rounds) for name, make in players.items()}
    ways |= {
        "literal loop": partial(_loop, world, rounds),
        "engine in blocks": partial(_engine, world, rounds),
    }
    agent = None
    for way, work in ways.items():
        name = f"{way}, {title}, a round of {rounds:,}"
        bench.say(name)
        try:
            seconds = work()
        except MissingError as error:
            yield Row(name, note=str(error))
            continue
        if way == Ours.name:
            agent = seconds
            yield Row(name, seconds)
        else:
            yield Row(name, seconds, "Agent" if agent else "", agent, longer=True)


def _paced(make: Callable[[], Player], world: Environment, rounds: int) -> float:
    (taken,) = pace([make()], pools(world, rounds))
    return sum(taken) / rounds


def _loop(world: Environment, rounds: int) -> float:
    draws = support.draws(world, rounds, 0)
    return timed(literal.play, POLICY, draws, truth(world))[1] / rounds


def _engine(world: Environment, rounds: int) -> float:
    return timed(support.actions, support.policy(POLICY), world, rounds)[1] / rounds
