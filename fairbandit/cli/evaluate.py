"""`fairbandit evaluate`: estimates the value of other policies from the decisions of a log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fairbandit.cli.logs import given_log
from fairbandit.cli.pages import show, write
from fairbandit.cli.parsers import read_words
from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.evaluation import evaluate as evaluated
from fairbandit.evaluation.frozen import named as by_name
from fairbandit.report import of_evaluation

_HELP = """\
Estimates mean reward, relative rank, fair regret and selection rates of policies from logged
decisions: the log of an agent, a CSV or Parquet table with a row for each candidate, DSJSON, or
a folder of such files.

KEY=VALUE are policy=NAME,NAME or files of saved agents, the columns of a table (decision, picked,
propensity, group, reward, features, …), and train, folds, seed, confidence, adaptive,
anytime, reward_range, choose and limits; see the documentation of `fairbandit.evaluate` and
`read_log`. In place of a NAME, {name: NAME, rank: OTHER} is a named policy with another part.

out=FILE writes one page of HTML to send (.html), or the table (.csv, .parquet); out=[FILE,FILE]
writes both.

examples:
  fairbandit evaluate decisions.jsonl policy=fair_greedy,greedy,uniform
  fairbandit evaluate hiring.csv policy=fair_greedy group=sex reward=grade 'features=[test,years]'
  fairbandit evaluate decisions.jsonl 'policy=fair_greedy,{name: fair_greedy, rank: smoothed_cdf}'
  fairbandit evaluate decisions.jsonl policy=uniform,agent.pt train=0 out=evaluation.html
  fairbandit evaluate decisions.jsonl policy=greedy,oful choose=reward 'limits=reward_gap<=1'"""


def evaluate(words: Sequence[str]) -> None:
    """Prints an evaluation, and writes its page."""
    # policy=greedy,{name: …} without brackets is a list, too
    several = [re.sub(r"\Apolicy=(?!\[)(.*{.*)\Z", r"policy=[\1]", word) for word in words]
    (path,), settings, said = read_words("evaluate", _HELP, several, "LOG")
    policies, out = settings.pop("policy", None), settings.pop("out", None)
    if policies is None:
        near = "".join(did_you_mean(key, ["policy"]) for key in settings)
        example = "policy=fair_greedy,greedy for example"
        raise FairbanditError(f"evaluate: which policies{near}? {example}")
    targets = by_name(policies.split(",") if isinstance(policies, str) else policies)
    log, options = given_log(path, settings, evaluated, targets)
    table = evaluated(log, targets, **options)
    report = of_evaluation(table, log, path, said, options.get("confidence", 0.95))
    show(report)
    write(report, out)
