"""Other libraries as players that are given the features of each candidate."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.players import Array, Ours, Vowpal, library

EXTRA = "compare"


def widened(x: Array) -> Array:
    """Features, (…, d), and then all products of two of them."""
    one, other = np.triu_indices(x.shape[-1])
    return np.concatenate([x, x[..., one] * x[..., other]], axis=-1)


class OursWithProducts(Ours):
    """An agent whose contexts are widened by all products of two features."""

    def __init__(self, config: Any, features: int, groups: int, seed: int) -> None:
        super().__init__(config, widened(np.zeros((1, features))).shape[1], groups, seed)

    def act(self, contexts: Array, groups: Array) -> int:
        return super().act(widened(contexts), groups)


class VowpalCosts(Vowpal):
    """Vowpal Wabbit, with a reward r as the cost scale·(best − r)."""

    def __init__(self, features: int, words: str, seed: int, best: float, scale: float) -> None:
        super().__init__(features, words, seed)
        self.best, self.scale = best, scale

    def learn(self, reward: float) -> None:
        super().learn(self.scale * (reward - self.best))


class Coba:
    """A learner of coba whose actions are the candidates' features, without a shared context.

    coba's linear learners fix the penalty at λ = 1. Features that are multiplied by s are as a
    penalty of 1/s². The seed breaks ties; `LinTSLearner` draws its posterior samples with a seed
    of its own, 1, whatever it is given.
    """

    def __init__(self, name: str, exploration: float, terms: list[str], scale: float, seed: int):
        make = getattr(library("coba.learners", EXTRA), name)
        self.learner, self.scale = make(exploration, terms, seed=seed), scale

    def act(self, contexts: Array, groups: Array) -> int:
        actions = [tuple(x) for x in (contexts * self.scale).tolist()]
        self.action, self.share = self.learner.predict(None, actions)
        return next(i for i, action in enumerate(actions) if action is self.action)

    def learn(self, reward: float) -> None:
        self.learner.learn(None, self.action, reward, self.share)


class Bayesian:
    """Thompson sampling of bayesianbandits: one linear model shared by all arms.

    An arm is a place in the pool, and the arm featurizer looks up the features of the candidate
    there.
    """

    def __init__(
        self, features: int, places: int, prior: float, noise: float, products: bool, seed: int
    ) -> None:
        module = library("bayesianbandits", EXTRA)
        learner = module.NormalRegressor(alpha=prior, beta=noise)
        if products:
            polynomials = library("sklearn.preprocessing", EXTRA).PolynomialFeatures
            made = polynomials(2, include_bias=False).fit(np.zeros((1, features)))
            pipelines = library("bayesianbandits.pipelines", EXTRA)
            learner = pipelines.LearnerPipeline([("products", made)], learner)

        def features_of(pool: Array, tokens: list[int]) -> Array:
            return pool.reshape(1, places, features)[:, tokens].transpose(0, 2, 1)

        self.agent = module.LipschitzContextualAgent(
            [module.Arm(place, learner=None) for place in range(places)],
            module.ThompsonSampling(),
            module.FunctionArmFeaturizer(features_of),
            learner,
            random_seed=seed,
        )

    def act(self, contexts: Array, groups: Array) -> int:
        self.pool = contexts.reshape(1, -1)
        (place,) = self.agent.pull(self.pool)
        return place

    def learn(self, reward: float) -> None:
        self.agent.update(self.pool, np.array([reward]))
