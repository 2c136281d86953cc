"""`fairbandit evaluate`: what other policies would have given on the decisions of a log."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.errors import FairbanditError
from fairbandit.evaluation import evaluate as evaluated
from fairbandit.evaluation.picture import write_picture
from fairbandit.logs import read_log
from fairbandit.results.table import write
from fairbandit.run.table import console, make_table, named

_HELP = """\
Estimates mean reward, relative rank, fair regret and selection rates of policies from logged
decisions: those of an agent, a CSV or Parquet table with a row for each candidate, DSJSON, or a
folder of such files.

KEY=VALUE are policy=NAME,NAME or files of saved agents, the columns of a table (decision, picked,
propensity, group, reward, features, …), and train, folds, seed, level, adaptive, anytime,
reward_range and choose; see the documentation of `fairbandit.evaluate` and `read_log`."""

_EXAMPLES = """\
examples:
  fairbandit evaluate decisions.jsonl policy=fair_greedy,greedy,uniform
  fairbandit evaluate hiring.csv policy=fair_greedy group=sex reward=grade features=[test,years]
  fairbandit evaluate decisions.jsonl policy=uniform,agent.pt train=0 --out evaluation"""


def evaluate(words: Sequence[str]) -> None:
    """Prints an evaluation and, with --out, writes it as a table and a picture."""
    parser = tool_parser("evaluate", _HELP, _EXAMPLES)
    parser.add_argument("log", metavar="LOG", help="a file or a folder")
    parser.add_argument("settings", nargs="+", metavar="KEY=VALUE", help="policy=…")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="evaluation.csv, .png, .pdf")
    given = parser.parse_args(words)
    settings = read_parameters(given.settings, "evaluate")
    policies = settings.pop("policy", None)
    if policies is None:
        raise FairbanditError("evaluate: which policies? policy=fair_greedy,greedy for example")
    if isinstance(policies, str):
        policies = policies.split(",")
    reading, judging = _keys(read_log), _keys(evaluated)
    if unknown := sorted(settings.keys() - reading - judging):
        raise FairbanditError(
            f"evaluate: unknown key {', '.join(unknown)}; the keys are policy, "
            f"{', '.join(sorted(reading | judging))}"
        )
    reader = {key: settings[key] for key in settings if key in reading}
    if "like" in reader:
        reader["like"] = read_log(reader.pop("like"), **reader)
    options: dict[str, Any] = {key: settings[key] for key in settings if key in judging}
    log = read_log(given.log, **reader)
    table, out = evaluated(log, policies, **options), console()
    for one in table.attrs["diagnostics"]:
        out.print(
            f"{one['policy']}: {one['ess']:,.0f} effective decisions, largest weight "
            f"{one['largest_weight']:.3g}, share without support {one['unsupported']:.2g}"
        )
    headers = list(table.columns)
    rows = [
        [*row[:3], *(f"{number:.4f}" for number in row[3:6]), f"{row[6]:,}", f"{row[7]:,.0f}"]
        for row in table.itertuples(index=False)
    ]
    out.print(make_table(headers, rows, right=headers[3:], title=f"{len(log):,} decisions"))
    for note in table.attrs["notes"]:
        out.print(note)
    for estimators, assumption in table.attrs["assumptions"].items():
        out.print(f"{estimators}: {assumption}")
    if "chosen" in table.attrs:
        out.print(named("chosen", table.attrs["chosen"]))
    if given.out is not None:
        import pyarrow as pa

        plain = table.copy()
        plain.attrs = {}  # which Arrow would write, too
        write(pa.Table.from_pandas(plain, preserve_index=False), given.out / "evaluation.csv")
        for path in (given.out / "evaluation.csv", *write_picture(table, given.out)):
            out.print(named("written", path), soft_wrap=True)


def _keys(function: Any) -> set[str]:
    """The keyword-only parameters of a function."""
    parameters = inspect.signature(function).parameters.values()
    return {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
