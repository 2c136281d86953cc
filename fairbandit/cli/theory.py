"""`fairbandit theory`: what the paper proves, computed for a problem, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch

from fairbandit import registry
from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.cli.theory_tables import TheoryTables
from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.run.table import console
from fairbandit.theory import constants, laws, trade_off

_HELP = """\
Computes what the paper proves, for a problem of yours: its constants, the bounds on Fair-Greedy's
fair pseudo-regret term by term, from which T on they say anything, how close the estimates are,
the lemmas of the proofs, how soon every group is picked, and, with two groups, what fairness costs
in reward. Formulas are the paper's; where a proof leaves a gap, a corrected one stands beside it.

It plays no policy. For the simulation the constants are exact, unless a group has more than twelve
weights or very uneven ones (which takes environment.cdf=sampled): M and the trade-off are then
estimated from drawn rewards. For a table and the census constants are exact over the members, but
for the greatest density M, a smoothed one. For any other environment they are estimated from pools
that it draws, with their 95 % intervals.

words:
  environment=NAME             simulation, table, census_gender, census_ethnicity or your own
  environment.KEY=VALUE        as for a run
  rounds=T                     default: the environment's own
  delta=0.05                   the δ of the statements: bounds on the regret hold with probability
                               at least 1 - delta, each lemma with the one that its table says
  regularization=0.1           the ridge's λ
  alpha=0.5                    th:regret_2, corr:equalprob: the share of a group's expected
                               candidates that is counted on
  epsilon=ε                    thm:linreg_opt at this loss; default: the ε of greatest ε·p(ε)

Labels such as th:regret are those of the paper's source."""

_EXAMPLES = """\
examples:
  fairbandit theory environment=simulation
  fairbandit theory environment=simulation rounds=1000000 delta=0.01
  fairbandit theory environment=simulation environment.groups=2 'environment.theta=[2,1,1]'
  fairbandit theory environment=census_gender environment.root=data 'environment.states=[VT,WY]'"""

_NUMBERS = [field.name for field in fields(TheoryTables) if field.name != "known"]


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
    settings = {"rounds": float(environment.rounds), **numbers}
    made = TheoryTables(constants(environment), **settings)
    tables = [made.constants(environment.part_name), made.bounds(), made.closeness()]
    tables += [made.lemmas(), made.floor()]
    if made.has_trade_off:
        first, second = laws(environment)
        compared = trade_off(first, second, made.epsilon)
        tables.append(made.trade_off(compared, environment.group_names))
    remarks = made.remarks()  # whatever can fail has been computed before anything is printed
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
