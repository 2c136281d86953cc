"""`fairbandit evaluate`: estimates the value of other policies from the decisions of a log."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from fairbandit.agent import Agent
from fairbandit.cli.logs import given_log
from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.errors import FairbanditError
from fairbandit.evaluation import evaluate as evaluated
from fairbandit.evaluation.choosing import of_groups
from fairbandit.evaluation.picture import draw_estimates
from fairbandit.evaluation.whole import named as by_name
from fairbandit.figures.draw import save
from fairbandit.run.table import Sheet, console, make_table, named, write

if TYPE_CHECKING:
    import pandas as pd

_HELP = """\
Estimates mean reward, relative rank, fair regret and selection rates of policies from logged
decisions: the log of an agent, a CSV or Parquet table with a row for each candidate, DSJSON, or
a folder of such files.

KEY=VALUE are policy=NAME,NAME or files of saved agents, the columns of a table (decision, picked,
propensity, group, reward, features, …), and train, folds, seed, level, adaptive, anytime,
reward_range, choose and limits; see the documentation of `fairbandit.evaluate` and `read_log`."""

_EXAMPLES = """\
examples:
  fairbandit evaluate decisions.jsonl policy=fair_greedy,greedy,uniform
  fairbandit evaluate hiring.csv policy=fair_greedy group=sex reward=grade features=[test,years]
  fairbandit evaluate decisions.jsonl policy=uniform,agent.pt train=0 --out evaluation
  fairbandit evaluate decisions.jsonl policy=greedy,oful choose=reward 'limits=reward_gap<=1'"""


def evaluate(words: Sequence[str]) -> None:
    """Prints an evaluation and, with --out, writes it as a table and a picture."""
    parser = tool_parser("evaluate", _HELP, _EXAMPLES)
    parser.add_argument("log", metavar="LOG", help="a file or a folder")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="policy=…")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="evaluation.csv, .png, .pdf")
    given = parser.parse_intermixed_args(words)
    settings = read_parameters(given.settings, "evaluate")
    policies = settings.pop("policy", None)
    if policies is None:
        raise FairbanditError("evaluate: which policies? policy=fair_greedy,greedy for example")
    targets = by_name(policies.split(",") if isinstance(policies, str) else policies)
    agents = [policy for policy in targets.values() if isinstance(policy, Agent)]
    log, options = given_log(given.log, settings, evaluated, agents)
    table, out = evaluated(log, targets, **options), console()
    for row in table.attrs["diagnostics"]:
        if not row["ess"]:  # a notice tells why
            continue
        support = "unknown" if isnan(row["unsupported"]) else f"{row['unsupported']:.2g}"
        out.print(
            f"{row['policy']}: {row['ess']:,.0f} effective decisions, largest weight "
            f"{row['largest_weight']:.3g}, share without support {support}"
        )
    formats = {"value": "{:.4f}", "low": "{:.4f}", "high": "{:.4f}", "n": "{:,}", "ess": "{:,.0f}"}
    shown = table[[":" not in measure for measure in table["measure"]]]
    shown = shown.assign(**{key: shown[key].map(form.format) for key, form in formats.items()})
    title = f"{len(log):,} decisions"
    out.print(make_table(list(shown), shown.to_numpy(), right=list(formats), title=title))
    out.print(_groups(table))
    for note in table.attrs["notes"]:
        if note not in log.notes:  # the notes of the log were printed when it was read
            out.print(note)
    for estimators, assumption in table.attrs["assumptions"].items():
        out.print(f"{estimators}: {assumption}")
    if "chosen" in table.attrs:
        out.print(named("chosen", table.attrs["chosen"] or "no policy is within the limits"))
    if given.out is not None:
        file = given.out / "evaluation.csv"
        write(pa.table(table.to_dict("list")), file)
        for path in (file, *save(draw_estimates(table), given.out, "evaluation")):
            out.print(named("written", path), soft_wrap=True)


def _groups(table: pd.DataFrame) -> Sheet:
    """Returns a table of the groups side by side, with a row for each policy and group."""
    cells = dict[tuple[str, str], dict[str, str]]()
    for measure in ("share", "selection", "reward", "rank", "fair_regret", "win"):
        rows = of_groups(table, measure)
        head = f"{measure.replace('_', ' ')} ({', '.join(rows['estimator'].unique())})"
        for row in rows.itertuples():
            text = f"{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]"
            cells.setdefault((row.policy, row.group), {})[head] = text
    heads = list(dict.fromkeys(head for own in cells.values() for head in own))
    lines = [(*names, *(own.get(head, "–") for head in heads)) for names, own in cells.items()]
    return Sheet(("policy", "group", *heads), lines, 2, below="by group, with intervals; – refused")
