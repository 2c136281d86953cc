"""Neural-linear models: a linear estimator on features that a network learns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from fairbandit.errors import FairbanditError, shown, typed
from fairbandit.estimators.base import Estimator, RewardModel, Rounds, fit_tables
from fairbandit.estimators.ties import PLAIN, Approximate
from fairbandit.history import Outcomes, Problem, State
from fairbandit.registry import Count, NonNegative, Positive, create, register

CACHED_FITS = 64
"""The number of cached networks, so that an agent does not train them again at each decision."""


class Activation(Enum):
    """The functions between the layers of a multilayer perceptron."""

    relu = "ReLU"
    tanh = "Tanh"
    gelu = "GELU"


class Features(NamedTuple):
    """The learned features of one replica, [1, φ((x − centre)/scale)], of a trained network φ.

    The centre and the scale are the mean and the deviation of the training contexts, (d,).
    """

    network: nn.Module
    centre: Tensor
    scale: Tensor

    def __call__(self, contexts: Tensor) -> Tensor:
        """The learned features (…, 1 + p) of contexts (…, d)."""
        rows = (contexts.flatten(0, -2) - self.centre) / self.scale
        learned = self.network(rows)
        learned = torch.cat([torch.ones_like(learned[:, :1]), learned], 1)
        return learned.unflatten(0, contexts.shape[:-1])


class NeuralModel(RewardModel):
    """The models of a linear estimator on learned features.

    Args:
        parameters: the number of each model's features and head, and the number of the model in
            this head, (B, U) int64 each, the same for all replicas.
        features: the learned features, for each number and each replica.
        heads: the models on these features, for each number.
    """

    def __init__(
        self,
        *parameters: Tensor,
        features: Sequence[Sequence[Features]],
        heads: Sequence[RewardModel],
    ) -> None:
        super().__init__(*parameters)
        self._features, self._heads = features, heads

    def approximate(self, contexts: Tensor, groups: Tensor) -> Approximate:
        """Scores with the slack of the heads' models, and of 1e-9 of the scores at least."""

        def parts(head: RewardModel, x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
            scores = head.approximate(x, g)
            return scores.value, torch.as_tensor(scores.slack).expand_as(scores.value)

        value, slack = self._each(contexts, groups, parts)
        return Approximate(value, slack.maximum(PLAIN * value.abs()))

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        (score,) = self._each(contexts, groups, lambda head, x, g: (head.score(x, g),))
        return score

    def _bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        low, high = self._each(contexts, groups, lambda head, x, g: head.bounds(x, g))
        return low, high

    def _each(
        self,
        contexts: Tensor,
        groups: Tensor,
        compute: Callable[[RewardModel, Tensor, Tensor], Iterable[Tensor]],
    ) -> tuple[Tensor, ...]:
        numbers, positions = (part[0] for part in self.parameters)
        results, order = list[Iterable[Tensor]](), list[Tensor]()
        for number in numbers.unique().tolist():
            at = (numbers == number).nonzero()[:, 0]
            x, g = (part if part.shape[1] == 1 else part[:, at] for part in (contexts, groups))
            with torch.no_grad():
                learned = torch.stack(
                    [f(x) for f, x in zip(self._features[number], x, strict=True)]
                )
            results.append(compute(self._heads[number].take(positions[at]), learned, g))
            order.append(at)
        back = torch.cat(order).argsort()
        return tuple(torch.cat(parts, 1)[:, back] for parts in zip(*results, strict=True))


@register("estimator", "neural_linear")
@dataclass(kw_only=True, eq=False)
class Network(Estimator):
    """A linear estimator on features that a network learns from the rewards.

    The network φ and a linear output layer minimise the mean squared error of standardised rewards,
    by AdamW with a learning rate that falls to 0 linearly. The output layer is then replaced by the
    `head`: an estimator that keeps sums and sees the features [1, φ(x)] in place of x. With the
    head `ridge` scores are the posterior means of Bayesian linear regression on the last layer;
    `optimistic_ridge` adds a confidence bonus and has bounds, and `thompson_ridge` draws from the
    posterior. The bounds ignore that φ is learned.

    The network is trained anew on all outcomes whenever the policy refreshes its model, from
    weights that depend on the seed and on n_train alone. So decisions do not depend on blocks, on
    the times at which rewards came, or on saving and loading; they may depend on the processor. The
    policy must set `refresh`.

    Args:
        make: a function of the number of features d that returns a `torch.nn.Module`, which maps
            contexts (n, d) to features (n, p); or a mapping with `_target_`, the dotted name of
            such a function or class, and its further arguments. None is a multilayer perceptron.
        widths: the number of units in each layer of the perceptron; the last layer is φ.
        activation: `relu`, `tanh` or `gelu`, after each layer of the perceptron.
        steps: the number of training steps, at least 1.
        batch: the number of outcomes in a step, drawn with replacement, at least 1.
        learning_rate: the learning rate of the first step, above 0.
        weight_decay: the weight decay, at least 0.
        head: the name of an estimator, or a mapping with `name` and hyperparameters. None is
            `ridge` without injected noise, which is smaller than the rounding of a network.
        together: whether the networks of all replicas are trained at once, which takes less time.
            Rounding, and so decisions, then depend on the other replicas. None does so on a GPU.

    Raises:
        FairbanditError: a head that refits all outcomes or needs the truth.
    """

    reference = "Riquelme, Tucker and Snoek, Deep Bayesian Bandits Showdown, ICLR 2018"
    needs = frozenset({"rewards", "refresh"})

    make: Any = None
    widths: Sequence[int] = (64, 64)
    activation: Activation = Activation.relu
    steps: Count = 200
    batch: Count = 64
    learning_rate: Positive = 0.01
    weight_decay: NonNegative = 1e-4
    head: Any = None
    together: bool | None = None

    def __post_init__(self) -> None:
        make = self.make
        if not self.widths or min(self.widths) < 1:
            raise FairbanditError(f"widths must be one or more above 0, got {[*self.widths]}")
        if not (make is None or callable(make) or "_target_" in make):
            raise FairbanditError(
                "make: expected a function of the number of features that returns a "
                f"torch.nn.Module, or a mapping with _target_; got {shown(make)}"
            )
        if self._head.needs:
            raise FairbanditError(
                f"head: expected an estimator that keeps sums, such as ridge, optimistic_ridge or "
                f"thompson_ridge; {self._head} needs {', '.join(sorted(self._head.needs))}"
            )

    @property
    def _head(self) -> Estimator:
        head = {"name": "ridge", "noise": 0.0} if self.head is None else self.head
        return cast(Estimator, create("estimator", head))

    @property
    def draws_models(self) -> bool:  # type: ignore[override]
        """Whether the head draws a model in each round."""
        return self._head.draws_models

    def _models(
        self, problem: Problem, state: State, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        device, head = problem.device, self._head
        numbers, positions = list[int](), list[int]()
        features, heads = list[Sequence[Features]](), list[RewardModel]()
        distinct = sorted(set(n_train))
        for n, size in zip(distinct, outcomes.counts(distinct), strict=True):
            known, at = outcomes.rows(0, size), [u for u, m in enumerate(n_train) if m == n]
            learned = self._learned(problem, known, n)
            with torch.no_grad():
                x = torch.stack([f(x) for f, x in zip(learned, known.contexts, strict=True)])
            of_features = replace(problem, features=x.shape[2])
            sums = head.init(of_features)
            x[known.groups < 0] = 0  # an empty slot does not count
            sums = head.advance(sums, known._replace(contexts=x))
            nothing = known.rows(0, 0)._replace(contexts=x[:, :0])
            models = head._models(
                of_features, sums, [rounds[u] for u in at], [n] * len(at), nothing
            )
            positions += range(len(at)) if len(models) == len(at) else [0] * len(at)
            numbers += [len(heads)] * len(at)
            features.append(learned)
            heads.append(models)
        parts = (torch.tensor(part, device=device) for part in (numbers, positions))
        shaped = (part.expand(problem.replicas, -1) for part in parts)
        return NeuralModel(*shaped, features=features, heads=heads)

    def _learned(self, problem: Problem, outcomes: Outcomes, n: int) -> Sequence[Features]:
        tables = fit_tables(problem, outcomes, n)
        keys = [(seed, table.tobytes()) for seed, table in tables]
        together = problem.device.type == "cuda" if self.together is None else self.together
        parts = [tuple(keys)] if together else [(key,) for key in keys]
        fits = (_fitted(self, problem.features, problem.device, part) for part in parts)
        return [learned for fit in fits for learned in fit]

    def _made(self, features: int) -> nn.Sequential:
        make = self._mlp if self.make is None else self.make
        if isinstance(make, Mapping):
            options = {key: value for key, value in make.items() if key != "_target_"}
            target = str(make["_target_"])
            module, _, name = target.rpartition(".")
            try:
                make = partial(getattr(import_module(module), name), **options)
            except (ImportError, AttributeError, ValueError) as error:
                raise FairbanditError(f"make: _target_={target}: {error}") from error
        network = make(features)
        if not isinstance(network, nn.Module):
            raise FairbanditError(f"make: expected a torch.nn.Module, got {typed(network)}")
        network = network.double()
        tried = network(torch.zeros(2, features, dtype=torch.float64))
        if not isinstance(tried, Tensor) or tried.shape[:-1] != (2,):
            raise FairbanditError(
                f"make: expected a network that maps (n, {features}) to (n, p); its result for "
                f"n = 2 is {typed(tried)}"
            )
        return nn.Sequential(network, nn.Linear(tried.shape[1], 1).double())

    def _mlp(self, features: int) -> nn.Module:
        layers = list[nn.Module]()
        for width_in, width in zip((features, *self.widths), self.widths, strict=False):
            layers += nn.Linear(width_in, width), getattr(nn, self.activation.value)()
        return nn.Sequential(*layers)


@lru_cache(maxsize=CACHED_FITS)
def _fitted(
    part: Network, features: int, device: torch.device, replicas: tuple[tuple[int, bytes], ...]
) -> list[Features]:
    """Learns the features of each replica from its seed and its rows [r x], given as bytes."""
    networks, tables, batches = list[nn.Sequential](), list[Tensor](), list[Tensor]()
    for seed, rows in replicas:
        with torch.random.fork_rng(devices=[]):  # modules draw their weights globally
            torch.manual_seed(seed)
            networks.append(part._made(features).to(device))
        table = torch.frombuffer(bytearray(rows), dtype=torch.float64) if rows else torch.zeros(0)
        table = table.double().view(-1, 1 + features).to(device)
        drawn = np.random.default_rng(seed).integers(
            max(len(table), 1), size=(part.steps, part.batch)
        )
        tables.append(table)
        batches.append(torch.from_numpy(drawn).to(device))
    means = [table.sum(0) / max(len(table), 1) for table in tables]
    squares = [(t - m).square().sum(0) / max(len(t), 1) for t, m in zip(tables, means, strict=True)]
    spreads = [square.sqrt().where(square > 0, 1.0) for square in squares]
    if trains := [b for b, table in enumerate(tables) if len(table)]:
        scaled = [(tables[b] - means[b]) / spreads[b] for b in trains]
        chosen, threads = torch.stack([batches[b] for b in trains], 1), torch.get_num_threads()
        torch.set_num_threads(1)  # sums do not depend on the number of threads then
        try:
            with torch.inference_mode(False), torch.enable_grad():
                _train(part, [networks[b] for b in trains], scaled, chosen)
        finally:
            torch.set_num_threads(threads)
    trained = [network.requires_grad_(False).eval()[0] for network in networks]
    return [Features(f, m[1:], s[1:]) for f, m, s in zip(trained, means, spreads, strict=True)]


def _train(part: Network, networks: list[Any], tables: list[Tensor], batches: Tensor) -> None:
    predict: Callable[[Tensor], Tensor]
    if len(networks) == 1:
        weights = dict(networks[0].named_parameters())
        predict = lambda x: networks[0](x[0])[None]  # noqa: E731
    else:
        weights, buffers = stack_module_state(networks)
        call = lambda w, b, x: functional_call(networks[0], (w, b), (x,))  # noqa: E731
        predict = lambda x: vmap(call)(weights, buffers, x)  # noqa: E731
    decay = part.weight_decay
    optimizer: Any = torch.optim.AdamW(weights.values(), weight_decay=decay, fused=True)
    for step, batch in enumerate(batches):
        optimizer.param_groups[0]["lr"] = part.learning_rate * (1 - step / part.steps)
        rows = torch.stack([table[at] for table, at in zip(tables, batch, strict=True)])
        loss = (predict(rows[..., 1:])[..., 0] - rows[..., 0]).square().mean(1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if not all(bool(weight.isfinite().all()) for weight in weights.values()):
        raise FairbanditError(
            "estimator 'neural_linear': training diverged; use a smaller learning_rate, now "
            f"{part.learning_rate}"
        )
    if len(networks) > 1:
        for b, network in enumerate(networks):
            network.load_state_dict(
                {name: weight[b] for name, weight in weights.items()}, strict=False
            )
