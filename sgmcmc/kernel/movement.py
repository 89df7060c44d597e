"""The moves of the parameters, each by its dynamics: as a whole, or only the rows that a minibatch gathers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from sgmcmc.core.chains import over_chains
from sgmcmc.core.covariance import Covariance
from sgmcmc.core.random import Purpose
from sgmcmc.core.transforms import Coordinates
from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Dynamics, Given, Memory
from sgmcmc.kernel import IterationInputs
from sgmcmc.kernel.estimation import Estimated
from sgmcmc.kernel.inputs import Normals, drawn_by
from sgmcmc.kernel.iterations import Iterations
from sgmcmc.kernel.rows import has_rows, put, take, take_memory
from sgmcmc.minibatch import Part
from sgmcmc.model import RowGradient

Moved = tuple[tf.Tensor, Memory]
Memories = dict[str, Memory]  # of the parameters

NOISE, REFRESH = "noise", "refresh"  # the uses of standard normals
NOISES = {NOISE: Purpose.NOISE, "second": Purpose.SECOND, "third": Purpose.THIRD}  # of a step


class Movement:
    """The moves of all parameters in an iteration.

    The gathered rows of the parameters `by_rows` are known only in the step, so their noise is drawn there.
    """

    def __init__(self, iterations: Iterations, dynamics: Mapping[str, Dynamics], by_rows: frozenset[str]) -> None:
        elements, self._wants_norm = iterations.elements, any(one.wants_norm for one in dynamics.values())
        self._iterations, self._dynamics, self._by_rows = iterations, dynamics, by_rows
        self._refresh = {name: renew for name in elements if (renew := dynamics[name].refresh)}
        self._drift = {name: drift for name in elements if (drift := dynamics[name].drift)}
        ahead = {name: one.noises for name, one in dynamics.items() if name not in by_rows}
        self._noises = []
        for k, (noise, purpose) in enumerate(NOISES.items()):
            of = {name: e for name, e in elements.items() if ahead.get(name, 0) > k}
            self._noises.append(Normals(iterations, of, noise, purpose, iterations.leaps))
        of = {name: e for name, e in elements.items() if name in self._refresh}
        self._renewal = Normals(iterations, of, REFRESH, Purpose.REFRESH, 1)
        self._initial = Normals(iterations, elements, "initial", Purpose.INITIAL, 1)
        self.draw_inputs = drawn_by(*self._noises, self._renewal)

    def begun(self, constants: Tree, params: Tree) -> Memories:
        at = self._coordinates(constants).origin(params)
        eps = self._iterations.stepsizes(constants, tf.constant(0, tf.uint32))
        z = self._initial.split(self._initial.drawn(constants, tf.zeros([1], tf.uint32))[0])
        return {name: self._mapped(self._dynamics[name].init)(at[name], eps[name], z[name]) for name in params}

    def renewed(self, constants: Tree, params: Tree, memory: Memories, eps: Tree, inputs: IterationInputs) -> Memories:
        at = self._coordinates(constants).origin(params)
        z = self._silenced(self._renewal.of(inputs), inputs.iteration)
        return memory | {
            name: self._mapped(refresh)(at[name], eps[name], z[name], memory[name])
            for name, refresh in self._refresh.items()
        }

    def drifted(self, constants: Tree, params: Tree, memory: Memories) -> Tree:
        """The positions at which the gradient is evaluated."""
        if not self._drift:
            return params
        coordinates = self._coordinates(constants)
        at = coordinates.origin(params)
        reached = {name: self._over_chains(drift)(at[name], memory[name]) for name, drift in self._drift.items()}
        return coordinates.moved(params, at | reached)

    def moved(
        self,
        constants: Tree,
        params: Tree,
        memory: Memories,
        eps: Tree,
        inputs: IterationInputs,
        leap: Part,
        estimated: Estimated,
    ) -> tuple[Tree, Memories]:
        """The parameters and the memories after a step, given the estimates at `params`."""
        coordinates = self._coordinates(constants)
        at, grad = coordinates.origin(params), coordinates.of_gradient(estimated.gradient)
        first, *further = self._normals(constants, inputs, leap, grad)
        noises = [coordinates.of_noise(first), *further]
        norm = _norm(grad) if self._wants_norm else None
        reached, after = {}, {}
        for name in self._iterations.elements:
            z = tuple(each[name] for each in noises if name in each)
            given = {"noise": z[0] if len(z) == 1 else z or None, "gradient": grad[name], "norm": norm}
            given |= {"covariance": estimated.covariance.get(name)}
            given = {key: value for key, value in given.items() if value is not None}
            move = self._rows if name in self._by_rows else self._whole
            reached[name], after[name] = move(self._dynamics[name], at[name], memory[name], eps[name], given)
        return coordinates.moved(params, reached), after

    def _coordinates(self, constants: Tree) -> Coordinates:
        return Coordinates(constants["preconditioner"], self._iterations.elements)

    def _over_chains(self, fn: Callable) -> Callable:
        return over_chains(fn, self._iterations.n_chains)

    def _mapped(self, fn: Callable[..., Memory]) -> Callable:
        """An `init` or a `refresh`, mapped over the chain axis of (theta, eps, noise, *memory)."""

        def of_one(theta: tf.Tensor, eps: tf.Tensor, z: tf.Tensor, *memory: Memory) -> Memory:
            return fn(theta, *memory, Given(eps, z))

        return self._over_chains(of_one)

    def _normals(self, constants: Tree, inputs: IterationInputs, leap: Part, grad: Tree) -> list[Tree]:
        """The noises of whole parameters, [C, *shape], or of gathered rows, [C, k, ...]."""
        first, *further = (normals.of(inputs, leap) for normals in self._noises)
        counters = self._iterations.counter(inputs.iteration, leap)[None]
        first |= {name: self._of_rows(constants, name, grad[name], counters) for name in sorted(self._by_rows)}
        return [self._silenced(z, inputs.iteration) for z in (first, *further)]

    def _of_rows(self, constants: Tree, name: str, grad: RowGradient, counters: tf.Tensor) -> tf.Tensor:
        """The normals that the rows would get if the whole parameter moved, equal for all occurrences of a row."""
        of, n_chains = self._iterations.elements[name], self._iterations.n_chains
        width = of.size // of.shape[0]
        numbers = of.start + tf.cast(grad.rows, tf.int32)[:, :, None] * width + tf.range(width)
        stream = self._iterations.stream(constants, Purpose.NOISE)
        flat = stream.normal(counters, tf.reshape(numbers, [n_chains, -1]), self._iterations.dtype)
        return tf.reshape(flat, grad.values.shape)

    def _silenced(self, z: Tree, iteration: tf.Tensor) -> Tree:
        """The noise, which is 0 for a parameter while its schedule explores."""
        exploring = self._iterations.exploring(iteration)
        return z | {name: z[name] * (1 - now) for name, now in exploring.items() if name in z}

    def _whole(self, dynamics: Dynamics, theta: tf.Tensor, memory: Memory, eps: tf.Tensor, given: dict) -> Moved:
        def step(theta: tf.Tensor, memory: Memory, eps: tf.Tensor, given: dict) -> Moved:
            return dynamics.step(theta, memory, Given(eps, **given))

        return self._over_chains(step)(theta, memory, eps, given)

    def _rows(self, dynamics: Dynamics, theta: tf.Tensor, memory: Memory, eps: tf.Tensor, given: dict) -> Moved:
        # Each row has its own time, which its visits advance; per unit of it the gradient is an unbiased estimate.
        z, grad = given["noise"], given["gradient"]
        visits = tf.reshape(grad.visits, [*grad.visits.shape, *[1] * (z.shape.rank - 2)])
        eps = tf.reshape(eps, [self._iterations.n_chains, *[1] * (z.shape.rank - 1)])
        at, kept, eps = take(theta, theta, grad.rows), take_memory(theta, memory, grad.rows), eps * visits
        part, of_rows = self._whole(dynamics, at, kept, eps, {"noise": z, "gradient": grad.values / visits})
        return put(theta, grad.rows, part), {
            key: put(memory[key], grad.rows, value) if has_rows(theta, memory[key]) else value
            for key, value in of_rows.items()
        }


def _norm(gradient: Tree) -> tf.Tensor:
    """The norm over all parameters, [C]."""
    squares = [tf.reduce_sum(tf.reshape(g, [g.shape[0], -1]) ** 2, axis=1) for g in gradient.values()]
    return tf.sqrt(tf.add_n(squares))


def climbs(dynamics: Dynamics, shape: tuple[int, ...], dtype: tf.DType) -> bool:
    """Whether every element moves by its gradient, in two steps without noise."""
    begin, eps = tf.ones(shape, dtype), tf.ones([], dtype)
    theta, memory = begin, dynamics.init(begin, Given(eps, 0 * begin))
    for _ in range(2):
        theta = dynamics.drift(theta, memory) if dynamics.drift else theta
        theta, memory = dynamics.step(theta, memory, inputs_for(dynamics, eps, 0 * begin, begin))
    return bool(tf.reduce_all(theta > begin))


def inputs_for(dynamics: Dynamics, eps: tf.Tensor, noise: tf.Tensor, gradient: tf.Tensor) -> Given:
    """The inputs of a step, all that the dynamics requests."""
    several = tuple(noise * sign for sign in (1.0, -1.0, 0.5)[: dynamics.noises])
    norm = tf.norm(gradient) if dynamics.wants_norm else None
    given = Given(eps, several if dynamics.noises > 1 else noise, gradient, norm=norm)
    if dynamics.covariance is None:
        return given
    return given._replace(covariance=Covariance(dynamics.covariance).of_sum(tf.stack([gradient, noise])))
