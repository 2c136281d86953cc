"""`fairbandit theory`: what the paper proves, computed for a problem, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fairbandit import registry
from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.cli.theory_tables import TheoryTables
from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.run.table import console
from fairbandit.theory import constants, pick_moments, trade_off
from fairbandit.theory.moments import KAPPAS

_HELP = """\
Computes for a problem of yours what the paper proves about Fair-Greedy: the constants, and the
bound on its fair regret. One step of the paper's proof is false, so the theorem as printed and the
repaired one stand side by side, and below them the constant of this very instance, by Monte Carlo.
With two groups that have a place each, it also prints what fairness costs in reward.

It plays no policy. Constants of the simulation are in closed form; those of a table and the census
are exact over the members; those of other environments come from pools that they draw.

words:
  environment=NAME             simulation, table, census_gender, census_ethnicity or your own
  environment.KEY=VALUE        as for a run
  rounds=T                     default: the environment's own
  delta=0.05                   bounds hold with probability at least 1 - delta
  regularization=0.1           the ridge's λ
  alpha=0.5                    th:regret_2: the share of a group's expected candidates that is
                               counted on
  kappa=κ                      the error of ranks at which λ_κ is taken; default: five of them
  epsilon=ε                    thm:linreg_opt at this loss; default: the ε of greatest ε·p(ε)

Labels such as th:regret are those of the paper's source."""

_EXAMPLES = """\
examples:
  fairbandit theory environment=simulation
  fairbandit theory environment=simulation rounds=1000000 delta=0.01
  fairbandit theory environment=simulation environment.groups=2 'environment.theta=[2,1,1]'
  fairbandit theory environment=census_gender environment.root=data 'environment.states=[VT,WY]'"""

_NUMBERS = ("rounds", "delta", "regularization", "alpha", "kappa", "epsilon")


def theory(words: Sequence[str]) -> None:
    """Prints what the paper proves of an environment.

    Args:
        words: `environment=NAME`, `environment.KEY=VALUE`, and numbers.

    Raises:
        FairbanditError: words that make no sense, or an environment that cannot be built or has
            no truth.
    """
    parser = tool_parser("theory", _HELP, _EXAMPLES)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="see above")
    given, numbers = _parsed(parser.parse_args(words).words)
    torch.set_num_threads(1)
    environment: Environment = registry.create("environment", given)
    kappas = (numbers.pop("kappa"),) if "kappa" in numbers else KAPPAS
    epsilon = numbers.pop("epsilon", None)
    settings = {"rounds": float(environment.rounds), **numbers}
    made = TheoryTables(constants(environment), **settings)
    # whatever can fail is computed before anything is printed
    picked, *moments = pick_moments(environment, (0.0, *kappas))
    tables = [made.constants(environment.part_name), made.bounds()]
    tables.append(made.instance(kappas, moments))
    if made.has_trade_off:
        compared = trade_off(environment, epsilon)
        names = environment.group_names
        tables.append(made.trade_off(compared, names, given=epsilon is not None))
    remarks = made.remarks(picked)
    shown = console()
    for table in tables:
        shown.print(table)
    for remark in remarks:
        shown.print(remark, highlight=False, markup=False)


def _parsed(words: Sequence[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """The environment's description, and the numbers by name."""
    name, parameters, numbers = "simulation", list[str](), dict[str, float]()
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key == "environment":
            name = value
        elif equals and key.startswith("environment.") and key != "environment.name":
            parameters.append(word.removeprefix("environment."))
        elif equals and key in _NUMBERS:
            try:
                numbers[key] = float(value)
            except ValueError:
                raise FairbanditError(f"{key} must be a number, got {value!r}") from None
        else:
            raise FairbanditError(
                f"fairbandit theory: {word!r} is none of environment=NAME, environment.KEY=VALUE, "
                f"{', '.join(f'{number}=…' for number in _NUMBERS)} (see fairbandit theory --help)"
            )
    return {**read_parameters(parameters, "environment"), "name": name}, numbers
