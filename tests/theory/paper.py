"""The paper's formulas once more, in plain arithmetic and without the package, for the tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, e, floor, log, sqrt


@dataclass(frozen=True)
class Paper:
    """A problem's constants and what the statements are made at."""

    K: int
    G: int
    d: int
    L: float
    eig: float
    M: float
    R: float
    theta: float
    q: float = 1.0
    random: bool = False
    T: float = 5000
    delta: float = 0.05
    ridge: float = 0.1
    alpha: float = 0.5

    @property
    def own(self) -> bool:
        return not self.random and self.K == self.G and self.q == 1

    @property
    def a(self) -> float:
        """αq_K."""
        return (self.alpha if self.random else 1) * self.q

    @property
    def eig2(self) -> float:
        """λ⁺ with the factor of eq:patboundused."""
        return self.eig * self.q * self.G / self.K

    def b1(self) -> float:
        return sqrt(self.ridge) + self.R + self.L

    def m(self) -> float:
        return max(self.L**2 / self.ridge, 1)

    def boundmu(self, learned: float) -> float:
        root = sqrt(self.d * log((8 + 8 * learned * self.m()) / self.delta))
        return self.b1() * root + sqrt(self.ridge) * self.theta

    def dwk(self, t: float) -> float:
        return sqrt(log(2 * self.G * max(self.T, t) / self.delta) / ((t - 1) * self.a))

    def t_n(self, constant: float, delta: float, T: float) -> float:
        if not self.random:
            return 3
        return 3 + ceil(constant / ((1 - self.alpha) ** 2 * self.q) * log(self.G * T / delta))

    def floor_round(self, c: float, delta: float) -> float:
        return (
            3 + 8 * log(5 * self.G * e / delta) ** 1.5 / (1 - c ** (1 / self.K)) ** 3 / self.a**1.5
        )

    def tau_1(self, delta: float) -> float:
        return 32 * self.K**3 / self.a**1.5 * log(5 * self.G * e / delta) ** 1.5

    def tau_2(self, delta: float) -> float:
        return 54 * self.L**2 / self.eig * log(4 * self.d / delta)

    def tau_3(self, delta: float, T: float) -> float:
        return 2 / ((1 - self.alpha) ** 2 * self.q) * log(self.G * T / delta) if self.random else 0

    def corrected(self, delta: float, second: float, T: float) -> tuple[int, int, int]:
        """Rounds lost, and the first rounds of lm:eiguen and lm:muxbound."""
        lost = ceil(max(self.floor_round(0.5, delta), self.t_n(4, second, T))) - 1
        rate = self.eig2 / (27 * self.L**2)
        # the geometric series d·Σ_{m ≥ n} exp(−m·rate) is δ/4 at this n
        n = log(4 * self.d / delta / (1 - math.exp(-rate))) / rate
        first = 2 * ceil(lost + n) + 1
        return lost, first, max(first, 4 * lost + 1)

    def mux(self, t: float) -> float:
        root = sqrt(self.d * log((8 + 4 * t * self.m()) / self.delta))
        bracket = self.b1() * root + sqrt(self.ridge) * self.theta
        return 8 * self.L / sqrt(self.eig2 * t) * bracket

    def instant(self, t: float) -> float:
        inside = (8 * self.K if self.own else 16 * self.G) * max(self.T, t) / self.delta
        return 6 * self.M * self.mux(t) + 2 * sqrt(log(inside) / ((t - 1) * self.a))

    def bound(self, T: float) -> dict[str, float]:
        """th:regret_2, which is th:regret and corr:equalprob where these apply."""
        one, two = (self.delta / 2,) * 2 if self.random else (self.delta, self.delta)
        lead = 96 * self.M * self.L * sqrt(self.K) / sqrt(self.eig * self.q * self.G)
        rows = {
            "confidence set of μ*": lead
            * self.b1()
            * sqrt(self.d * T * log((8 + 4 * T * self.m()) / one)),
            "regularisation": lead * sqrt(self.ridge * T) * self.theta,
            "empirical CDFs": 8 * sqrt(T * log(8 * self.G * T / one) / (3 * self.a)),
        }
        terms = sum(rows.values())
        taus = {
            "τ₁: every group is picked": self.tau_1(one),
            "τ₂: Σ is known": self.tau_2(one),
            "τ₃: every group was received": self.tau_3(two, T),
        }
        tau = 4 * max(taus.values()) + 3
        late = self.corrected(one, two, T)[2]
        rows |= taus
        rows |= {
            "warm-up τ = 4·max(τ₁, τ₂, τ₃) + 3": tau,
            "sum": terms + tau,
            "sum ÷ T (R_F(T) ≤ T anyway)": (terms + tau) / T,
            "corrected τ (t_N, all t at once, λ⁺)": late,
            "corrected sum": terms + late,
        }
        return rows

    def speaks_from(self, row: str) -> float:
        """Where the sum crosses T, by bisection in log T."""
        low, high = 0.0, 80.0
        for _ in range(200):
            middle = (low + high) / 2
            T = math.exp(middle)
            low, high = (low, middle) if self.bound(T)[row] < T else (middle, high)
        return math.exp(high)

    def lemmas(self) -> dict[str, tuple[float, list[float], Callable[[float, bool], float]]]:
        """By label: how many δ are missed, the first rounds, and the right side at a round."""
        delta, T = self.delta, self.T
        tau = max(self.tau_1(delta), self.tau_2(delta), self.tau_3(delta, T))
        lost, first, half = self.corrected(delta, delta, T)

        def eiguen(t: float, corrected: bool) -> float:
            return (floor((t - 1) / 2) - (lost if corrected else tau)) * self.eig2 / 4

        rows: dict[str, tuple[float, list[float], Callable[[float, bool], float]]] = {
            "lm:eiguen": (0.5, [ceil(2 * tau + 3), first], eiguen),
            "lm:boundx": (
                0.5,
                [ceil(2 * tau + 3), first],
                lambda t, corrected: self.L / sqrt(eiguen(t, corrected)),
            ),
            "lm:muxbound": (0.75, [ceil(4 * tau + 3), half], lambda t, _: self.mux(t)),
            f"lm:instantbound{'' if self.own else '_2'}": (
                1.0,
                [ceil(4 * tau + 3), half],
                lambda t, _: self.instant(t),
            ),
        }
        if self.random:
            rows["lm:chernoff"] = (
                0.0,
                [self.t_n(2, delta, T), self.t_n(4, delta, T)],
                lambda t, _: self.a * (t - 1 - floor((t - 1) / 2)),
            )
        return rows
