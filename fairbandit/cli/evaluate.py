"""`fairbandit evaluate`: estimates the value of other policies from the decisions of a log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fairbandit.cli.logs import given_log
from fairbandit.cli.parsers import folder_to_write, read_parameters, tool_parser
from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.evaluation import evaluate as evaluated
from fairbandit.evaluation.frozen import named as by_name
from fairbandit.evaluation.picture import draw_estimates
from fairbandit.figures.draw import save
from fairbandit.report.estimates import EVALUATION, diagnostics_of, groups_of, of_evaluation
from fairbandit.runs.sheets import console, make_table, named, write

_HELP = """\
Estimates mean reward, relative rank, fair regret and selection rates of policies from logged
decisions: the log of an agent, a CSV or Parquet table with a row for each candidate, DSJSON, or
a folder of such files.

KEY=VALUE are policy=NAME,NAME or files of saved agents, the columns of a table (decision, picked,
propensity, group, reward, features, …), and train, folds, seed, confidence, adaptive,
anytime, reward_range, choose and limits; see the documentation of `fairbandit.evaluate` and
`read_log`. In place of a NAME, {name: NAME, rank: OTHER} is a named policy with another part."""

_EXAMPLES = """\
examples:
  fairbandit evaluate decisions.jsonl policy=fair_greedy,greedy,uniform
  fairbandit evaluate hiring.csv policy=fair_greedy group=sex reward=grade 'features=[test,years]'
  fairbandit evaluate decisions.jsonl 'policy=fair_greedy,{name: fair_greedy, rank: smoothed_cdf}'
  fairbandit evaluate decisions.jsonl policy=uniform,agent.pt train=0 --out evaluation
  fairbandit evaluate decisions.jsonl policy=greedy,oful choose=reward 'limits=reward_gap<=1'"""


def evaluate(words: Sequence[str]) -> None:
    """Prints an evaluation and, with --out, writes it as a table and a picture."""
    parser = tool_parser("evaluate", _HELP, _EXAMPLES)
    parser.add_argument("log", metavar="LOG", help="a file or a folder")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="policy=…")
    out_help = "evaluation.csv, .json (for `fairbandit report`), .png, .pdf"
    parser.add_argument("--out", type=folder_to_write, metavar="FOLDER", help=out_help)
    given = parser.parse_intermixed_args(words)
    # policy=greedy,{name: …} without brackets is a list, too
    several = [re.sub(r"\Apolicy=(?!\[)(.*{.*)\Z", r"policy=[\1]", word) for word in given.settings]
    settings = read_parameters(several, "evaluate")
    policies = settings.pop("policy", None)
    if policies is None:
        near = "".join(did_you_mean(key, ["policy"]) for key in settings)
        words = "policy=fair_greedy,greedy for example"
        raise FairbanditError(f"evaluate: which policies{near}? {words}")
    targets = by_name(policies.split(",") if isinstance(policies, str) else policies)
    log, options = given_log(given.log, settings, evaluated, targets)
    table, out = evaluated(log, targets, **options), console()
    for line in diagnostics_of(table.attrs["diagnostics"]):
        out.print(line)
    formats = {"value": "{:.4f}", "low": "{:.4f}", "high": "{:.4f}", "n": "{:,}", "ess": "{:,.0f}"}
    shown = table[[":" not in measure for measure in table["measure"]]]
    texts = {key: shown[key].map(form.format) for key, form in formats.items()}
    shown = shown.assign(**{key: own.str.replace("inf", "∞") for key, own in texts.items()})
    title = f"{len(log):,} decisions"
    out.print(make_table(list(shown), shown.to_numpy(), right=list(formats), title=title))
    out.print(groups_of(table))
    if (tenths := table.attrs.get("calibration")) is not None:
        cells = tenths.to_numpy().round(3)
        heading = "estimated probabilities and picks"
        out.print(make_table(list(tenths), cells, right=list(tenths), title=heading))
    for note in table.attrs["notes"]:
        if note not in log.notes:  # the notes of the log were printed when it was read
            out.print(note)
    for estimators, assumption in table.attrs["assumptions"].items():
        out.print(f"{estimators}: {assumption}")
    if "chosen" in table.attrs:
        out.print(named("chosen", table.attrs["chosen"] or "no policy is within the limits"))
    if given.out is not None:
        file = given.out / "evaluation.csv"
        write(table, file)
        confidence = options.get("confidence", 0.95)
        page = of_evaluation(table, log, Path(given.log), given.settings, confidence)
        saved = page.save(given.out / EVALUATION)
        for path in (file, saved, *save(draw_estimates(table), given.out, "evaluation")):
            out.print(named("written", path), soft_wrap=True)
