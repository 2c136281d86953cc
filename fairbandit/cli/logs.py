"""The tools for logs and tables of people: evaluate, audit, report, replay, explain and erase."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from rich.text import Text

from fairbandit.agent import Agent, replaying
from fairbandit.audit import audit as audited
from fairbandit.audit import audit_table, plan
from fairbandit.cli.messages import short
from fairbandit.cli.parsers import names_in, tool
from fairbandit.errors import FairbanditError, check_known
from fairbandit.evaluation import evaluate as evaluated
from fairbandit.evaluation.frozen import named as by_name
from fairbandit.evaluation.frozen import read_for
from fairbandit.logs import Log, is_table, read_log
from fairbandit.logs import erase as erased
from fairbandit.policy.policy import Policy
from fairbandit.report import Report, local_law_144, of_evaluation, of_log, of_runs, of_table
from fairbandit.report.people import IN_WORDS, MOST_SENTENCES
from fairbandit.runs.folder import finished_below
from fairbandit.runs.sheets import Sheet, console, make_table, named
from fairbandit.tables.files import read_header


@tool("LOG")
def evaluate(
    path: Path, words: Sequence[str], /, *, policy: Any, out: Any = None, **settings: Any
) -> None:
    """Estimates rewards, ranks, fair regret and selection rates of policies from a log.

    LOG is the log of an agent, a CSV or Parquet table with a row for each candidate, DSJSON, or a
    folder of such files. policy=NAME,NAME are policies or files of saved agents; in place of a
    NAME, {name: NAME, rank: OTHER} is a named policy with another part. Other keys are the columns
    of a table (decision, picked, propensity, group, reward, features, …), and train, folds, seed,
    confidence, adaptive, anytime, reward_range, choose and limits: the arguments of
    `fairbandit.evaluate` and `read_log`.

    out=FILE writes one page of HTML to send (.html), or the table (.csv, .parquet);
    out=[FILE,FILE] writes both.

    examples:
      fairbandit evaluate hiring.csv policy=greedy group=sex reward=grade 'features=[test,years]'
      fairbandit evaluate decisions.jsonl 'policy=oful,{name: oful, rank: smoothed_cdf}'
      fairbandit evaluate decisions.jsonl policy=uniform,agent.pt train=0 out=evaluation.html
      fairbandit evaluate decisions.jsonl policy=greedy,oful choose=reward 'limits=reward_gap<=1'
    """
    judges = by_name(policy.split(",") if isinstance(policy, str) else policy)
    log, options = given_log(path, settings, evaluated, judges)
    table = evaluated(log, judges, **options)
    show(of_evaluation(table, log, path, words, options.get("confidence", 0.95)), out)


def audit(words: Sequence[str]) -> None:
    """Prints an audit, or with --plan how many decisions an audit needs."""
    if "--plan" in words:
        _plan([word for word in words if word != "--plan"])
    else:
        _audit(words)


@tool("FILE")
def _audit(path: Path, words: Sequence[str], /, *, out: Any = None, **settings: Any) -> None:
    """Reports and tests the selection rates of groups.

    The tests are valid at any sample size, and however often the audit is repeated as data arrive.

    For a log, the keys are its columns, as for `fairbandit evaluate`, and epsilon, order, seed and
    confidence (0.95 by default). The audit tests whether groups drift, and with epsilon the parity
    of selection. With order=true it tests whether the order of arrival depends on quality.

    A table with a row for each person, such as applicants, needs no rewards: group, selected or
    score, decision, unknown and confidence are the keys, as for `fairbandit.audit.audit_table`. The
    audit reports rates, impact ratios, the four-fifths rule and Fisher's exact test. form=ll144
    gives the summary that New York's Local Law 144 asks for.

    out=FILE writes one page of HTML to send (.html), or the table (.csv, .parquet);
    out=[FILE,FILE] writes both. `fairbandit audit --plan epsilon=E` prints how many decisions are
    needed.

    examples:
      fairbandit audit hiring.csv 'group=[sex,race]' score=grade epsilon=0.05 out=audit.html
      fairbandit audit applicants.csv group=sex 'selected={status: [Hired, Offer]}' unknown=[n/a]
    """
    show(_audit_of(path, settings, words), out)


@tool()
def _plan(*, epsilon: float, share: float = 0.5, confidence: float = 0.95, seed: int = 0) -> None:
    """Prints how many decisions `fairbandit audit` needs to see a gap between two groups.

    epsilon is the gap between a group's share of the candidates, which is given by share, and its
    share of the picks. confidence is for the audit, and seed for the simulated logs.

    example:
      fairbandit audit --plan epsilon=0.05
    """
    table = plan(epsilon=epsilon, share=share, confidence=confidence, seed=seed)
    heads = ["power", "decisions", "seen in fresh simulated logs"]
    rows = [
        (f"{power:g}", f"{n:,}", f"{seen:.1%}") for power, n, seen in table.itertuples(index=False)
    ]
    console().print(make_table(heads, rows, right=heads))


@tool("PATH")
def report(
    path: Path, words: Sequence[str], /, *, out: Any = "report.html", **settings: Any
) -> None:
    """Writes one HTML file to send, out=FILE [report.html], on runs, a log or a table of people.

    The page has a question, tables with the best values marked, pictures, results by group with
    intervals, assumptions, settings and hashes. It runs no script and loads nothing.

    PATH is a folder with finished runs at any depth, a log, or a table with a row for each person.
    For a log or a table, the other keys are the keys of `fairbandit audit`.

    examples:
      fairbandit report outputs/sweeps/policy_seed
      fairbandit report hiring.csv group=sex reward=grade epsilon=0.05 out=hiring.html
    """
    path = path if path.name not in ("", "..") else path.resolve()
    if path.is_dir() and any(finished_below(path)):
        if settings:
            wrong = ", ".join(settings)
            raise FairbanditError(f"only a log or a table takes further keys, got {wrong}")
        write(of_runs(path), out)
    else:
        write(_audit_of(path, settings, words), out)


@tool("LOG")
def replay(log: Path, *, agent: str | list[str] | None = None) -> None:
    """Plays the log of an agent again, and confirms every decision, probability and hash.

    Names the first line that differs, if any. Prints the last hash: store it elsewhere, so that
    others can check later that the log was not changed. agent=FILE is the agent's file before the
    log, if the agent was loaded from it.

    example:
      fairbandit replay decisions.jsonl agent=agent.pt
    """
    receipt, out = replaying.replay(log, agent), console()
    out.print(
        f"{receipt.lines:,} lines are as written: {receipt.decisions:,} decisions and "
        f"{receipt.rewards:,} rewards were played again"
    )
    out.print(named("last hash", receipt.sha256))


@tool("LOG")
def explain(
    log: Path, *, ticket: int | str, candidate: int = 0, agent: str | list[str] | None = None
) -> None:
    """Explains a decision in the log of an agent.

    Replays the log up to the decision, and prints the score, the index and the probability of each
    candidate, and who was picked. ticket is the ticket of the decision, or your own id of it.
    candidate=N is the number of an opening's candidate, from 0, and agent=FILE is as for
    `fairbandit replay`.

    examples:
      fairbandit explain decisions.jsonl ticket=150
      fairbandit explain hires.jsonl ticket=3 candidate=2       # the third candidate of an opening
    """
    print(replaying.explain(log, ticket, agent, candidate=candidate))


@tool("LOG")
def erase(log: Path, *, tickets: int | str | list[int | str], out: str) -> None:
    """Copies the log of an agent without the decisions of some tickets, or ids, to out=COPY.

    The copy has new hashes, and the number of erased decisions and the last hash of the old log in
    its first line. It serves evaluations and audits, but cannot be replayed.

    example:
      fairbandit erase decisions.jsonl 'tickets=[3,4]' out=erased.jsonl
    """
    left_out = erased(log, out, tickets if isinstance(tickets, list) else [tickets])
    console().print(f"{left_out:,} decisions are left out")
    console().print(named("written", out), soft_wrap=True)


def _audit_of(path: Path, settings: dict[str, Any], words: Sequence[str]) -> Report:
    form, is_people = settings.pop("form", None), _is_people(path, settings)
    if form is not None:
        check_known("form", [form], ["ll144"])
        if not is_people:
            raise FairbanditError(f"form={form}: expected a table, with selected or score")
        return local_law_144(audit_table(path, **settings), path, words)
    if is_people:
        return of_table(path, words, **settings)
    log, options = given_log(path, settings, audited)
    return of_log(log, path, words, **options)


def _is_people(path: Path, settings: Mapping[str, Any]) -> bool:
    """Whether a table has a row for each person: `selected` or `score` is given, and no picks.

    Raises:
        FairbanditError: a key is not an argument of `audit_table`.
    """
    if "selected" not in settings:
        if "score" not in settings or not path.is_file() or not is_table(path):
            return False
        names = read_header(path, settings.get("separator", ","))
        if settings.get("picked", "picked") in names:
            return False
    keys = [*signature(audit_table).parameters][1:]
    check_known("key for a table with a row for each person", settings, keys)
    return True


def given_log(
    path: Path,
    settings: Mapping[str, Any],
    function: Callable[..., Any],
    judges: Mapping[str, Policy | Agent] | None = None,
) -> tuple[Log, dict[str, Any]]:
    """Reads a log with some of the settings, and returns the others, arguments of a function."""
    reading, options = read_log.__kwdefaults__ or {}, function.__kwdefaults__ or {}
    check_known("key", settings, sorted({*reading, *options}))
    columns = {key: settings[key] for key in settings if key in reading}
    if "like" in columns:
        like = read_log(columns.pop("like"), **columns)
        columns |= {"like": like, "features": None, "exclude": None, "products": None}
    rest = {key: settings[key] for key in settings if key in options}
    return read_for(path, judges or {}, columns), rest


def show(report: Report, out: Any) -> None:
    """Prints the question, headings, texts and tables of a report, and writes it."""
    screen = console()
    for part in (report.question, *report.parts):
        if isinstance(part, Sheet):
            if part.headers == IN_WORDS and len(part.rows) > MOST_SENTENCES:
                above = f"The first {MOST_SENTENCES} of {len(part.rows):,} rows by impact ratio, "
                above += "small groups last; out=FILE writes the others, too."
                part = replace(part, rows=part.rows[:MOST_SENTENCES], above=above)
            screen.print(part, end="\n\n")
        elif isinstance(part, str):
            words = part.removeprefix("## ").replace("\n", " ")  # rich wraps them at its width
            text = Text(words, style="bold" if part.startswith("## ") else "")
            screen.print(text, end="\n\n", width=min(screen.width, 100))
    write(report, out)


def write(report: Report, out: Any) -> None:
    """Writes a report to the files that `out` names, and prints their names."""
    for path in map(Path, names_in(out)):
        report.write(path)
        console().print(named("written", short(path.absolute())), soft_wrap=True)
