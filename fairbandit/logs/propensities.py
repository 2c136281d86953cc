"""Estimates missing propensities by a conditional logit of the picks in their pools.

The pick of a pool is the candidate a with the probability

    p(a) = exp⟨β, z(a)⟩ / Σ_b exp⟨β, z(b)⟩

for standardised features z and the indicators of the groups. β maximises the likelihood of the
picks, times a normal prior N(0, I). The propensities of a decision come from a fit to the decisions
of other folds. They are right if picks depend on logged columns alone, and in this form.

The score of a pick, s = ∂ ln p/∂β = z(pick) − Σ_a p(a)z(a), says how the pick moves β. A weighted
estimate of the influence ψ with known propensities has the influence ψ − E[ψsᵀ] E[ssᵀ]⁻¹ s with
estimated ones: the variance is smaller. If S are the scores of all decisions, scaled so that
SᵀS = I, and Ψ the influences of the decisions that judge, the sum ΨᵀΨ loses (ΨᵀS)(ΨᵀS)ᵀ, whatever
part of the decisions judges.

References: McFadden, "Conditional Logit Analysis of Qualitative Choice Behavior", 1974; Hirano,
Imbens and Ridder, "Efficient Estimation of Average Treatment Effects Using the Estimated
Propensity Score", Econometrica 2003 (the variance); Chernozhukov et al., "Double/debiased machine
learning", The Econometrics Journal 2018 (folds).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.logs.log import Floats, Log
from fairbandit.notices import remark

if TYPE_CHECKING:
    import pandas as pd

ESTIMATE = "estimate"  # the value of `propensity` for which `read_log` estimates propensities

ASSUMPTION = "picks depend on logged columns alone"
"""The assumption of every estimate from such a log."""

FOLDS, SEED = 5, 0  # the number of folds, and the seed by which decisions are dealt to them

BINS = 10  # the number of rows of a calibration


def with_propensities(log: Log) -> Log:
    """Returns a log whose propensities are estimated from its picks."""
    groups, x = log.groups, log.contexts
    if x is None or log.picks.shape[1] > 1 or len(log) < 2 * FOLDS:
        raise FairbanditError(
            f"propensity={ESTIMATE}: expected contexts, one pick a decision and {2 * FOLDS} or "
            f"more decisions; got {log.picks.shape[1]} picks and {len(log)} decisions"
        )
    z = np.column_stack([x, *(groups == code for code in range(len(log.labels)))])
    deviation = z.std(0)
    z = (z - z.mean(0)) / np.where(deviation > 1e-12 * np.abs(z).max(0), deviation, np.inf)
    folds = np.random.default_rng(SEED).permutation(len(log)) % FOLDS
    p = np.empty(len(z))
    for fold in range(FOLDS):
        judged = folds == fold
        own = judged[log.decisions]
        beta = _fitted(z[~own], log[~judged])
        p[own] = _probabilities(z[own] @ beta, log[judged])
    s = log.at_picks(z)[:, 0] - log.sums(p[:, None] * z)
    left, size, _ = np.linalg.svd(s - s.mean(0), full_matrices=False)
    remark(
        "propensities are estimated by a conditional logit of the picks: weighted estimates are "
        f"right only if {ASSUMPTION}, and in this form"
    )
    scores = left[:, size > 1e-9 * size.max(initial=0.0)]
    return replace(log, propensities=log.at_picks(p), probabilities=p, pick_scores=scores)


def calibration(log: Log) -> pd.DataFrame:
    """Compares the probabilities of candidates with their picks.

    A row is a tenth of the candidates in order of probability, with the mean probability, the
    share that was picked, and the number of candidates.
    """
    import pandas as pd

    p = log.probabilities
    assert p is not None
    tenths = np.array_split(p.argsort(kind="stable"), BINS)
    rows = [(p[rows].mean(), log.picked[rows].mean(), len(rows)) for rows in tenths if len(rows)]
    return pd.DataFrame(rows, columns=["probability", "picked", "candidates"])


def _fitted(z: Floats, log: Log) -> Floats:
    """Returns β for the features of a log's candidates, (R, q)."""
    chosen, beta = log.at_picks(z)[:, 0], np.zeros(z.shape[1])

    def objective(beta: Floats) -> float:
        chances = log.at_picks(_probabilities(z @ beta, log))
        return float(np.log(chances.clip(1e-300)).sum() - beta @ beta / 2)

    value = objective(beta)
    for _ in range(100):  # Newton's method on a concave function
        weighted = _probabilities(z @ beta, log)[:, None] * z
        means = log.sums(weighted)
        gradient = (chosen - means).sum(0) - beta
        step = np.linalg.solve(weighted.T @ z - means.T @ means + np.eye(len(beta)), gradient)
        while (new := objective(beta + step)) < value - 1e-9 * abs(value):
            step = step / 2
        beta, gain, value = beta + step, gradient @ step, new
        if gain < 1e-10 * len(log):
            break
    return beta


def _probabilities(u: Floats, log: Log) -> Floats:
    """Returns the softmax of u, (R,), in each pool."""
    powers = np.exp(u - np.maximum.reduceat(u, log.starts)[log.decisions])
    return np.asarray(powers / log.sums(powers)[log.decisions])
