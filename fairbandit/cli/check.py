"""`fairbandit check`: runs the conformance suite on parts."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
from omegaconf import OmegaConf
from rich.text import Text

from fairbandit import conformance, registry
from fairbandit.cli.parsers import tool
from fairbandit.conformance.group import READS, part_answer
from fairbandit.errors import FairbanditError, check_known
from fairbandit.policy.build import preset, presets
from fairbandit.registry.signatures import place_of
from fairbandit.runs.sheets import console


@tool()
def check(**parts: Any) -> None:
    """Runs the conformance suite on registered parts, plugins included, or on a named policy.

    Prints which checks pass (✓), why others fail (✗), and why others do not apply (–). The exit
    code is 1 if a check fails.

    The part plays a small, deliberately awkward problem (three groups, one of them rare, empty
    places, and pools of fewer candidates than picks) with one, two and three picks, beside the
    reference parts: split halves or full, estimator ridge, rank empirical_cdf, selector argmax. A
    last line says whether the part reads the group of a candidate when it decides: one candidate of
    each pool changes its group, and the probabilities are compared.

    KIND=NAME names a part, or a named policy; KIND is one of split, estimator, rank, selector,
    environment, metric, policy. KIND.KEY=VALUE sets a hyperparameter. Your own tests can import
    the checks of a kind: see fairbandit.conformance.

    examples:
      fairbandit check rank=my_rank estimator=my_estimator
      fairbandit check rank=my_rank rank.bandwidth=0.2      with a hyperparameter
      fairbandit check policy=oful policy.refresh=1.2       a named policy
    """
    specs = {
        k: part if isinstance(part, dict) else {"name": str(part)} for k, part in parts.items()
    }
    if not specs or any("name" not in spec for spec in specs.values()):
        kinds = ", ".join(conformance.KINDS)
        raise FairbanditError(
            f"expected KIND=NAME and KIND.KEY=VALUE, where KIND is one of {kinds}"
        )
    check_known("kind", specs, conformance.KINDS)
    torch.set_num_threads(1)  # the suite's tensors are small
    passed = [_check_part(kind, spec) for kind, spec in specs.items()]
    if not all(passed):
        raise SystemExit(1)


def _check_part(kind: str, spec: dict[str, Any]) -> bool:
    """Prints how a part does; returns whether it passes."""
    show = partial(console().print, soft_wrap=True, highlight=False)
    name, options = spec["name"], ", ".join(f"{k}={v}" for k, v in spec.items() if k != "name")
    if kind == "policy":  # given hyperparameters replace the ones in the file
        check_known("policy", [name], presets())
        place, merged = str(presets()[name]), OmegaConf.merge(preset(name), spec)
        spec = cast(dict[str, Any], OmegaConf.to_container(merged))
    else:
        place = place_of(registry.lookup(kind, name))
    show(Text(f"{kind} {name}{f' ({options})' if options else ''} is {place}", style="bold"))
    passed, total = 0, len(conformance.checks(kind))
    for result in conformance.examine(kind, spec):
        mark, style, why = "✓", "green", ""
        if result.reason is not None:
            mark, style, why = "✗", "red", f": {result.reason}"
        elif result.inapplicable is not None:
            mark, style, why = "–", "dim", f": does not apply, since {result.inapplicable}"
        requirement = result.check.replace("_", " ").capitalize()
        show(Text.assemble("  ", (mark, style), f" {requirement}", (why, style)))
        passed, total = passed + (mark == "✓"), total - (mark == "–")
    if kind in ("estimator", "rank", "selector", "policy"):
        show(f"  {READS}: {part_answer(kind, spec)}")
    show(f"  {passed} of {total} checks passed")
    return passed == total
