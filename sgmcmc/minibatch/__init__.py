"""Which observations an iteration sees, and with what weights: one file for each scheme."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import Tree, nothing

Part = int | tf.Tensor
"""The number of a part of a minibatch whose size is not fixed."""


class Minibatch(NamedTuple):
    """A scheme of minibatches.

    Pass a function ``scheme(N, n) -> Minibatch`` of your own as the argument `subsampling` of a sampler.

    Parameters
    ----------
    size : int
        The number n of observations.
    draw : callable
        ``draw(stream, counters, constants) -> (indices, weights)``: int32 [K, C, n] for the K gradients with these
        numbers, uint32 [K], in C chains, and the weights of the observations in the sum over all N, of type `dtype`,
        [K, C, n], or None if all have the weight `scale`. The weighted sum must be unbiased.
        ``stream.integers(counters, numbers, N)`` draws uniform integers below N, [K, C, m], where the m `numbers` tell
        the draws of one gradient apart, and ``stream.uniform(counters, numbers)`` uniforms in (0, 1].
    scale : float, optional
        N/n, if all weights are equal.
    without_replacement : bool, default False
        Whether no observation occurs twice in a minibatch.
    simple : bool, default False
        Whether its observations are independent draws, or a simple random sample without replacement. The gradient
        noise then follows from single observations, as ``stepsize="auto"`` and a covariance of the noise require.
    independent : bool, default True
        Whether minibatches are independent of each other.
    prepare : callable, optional
        ``prepare(importance) -> constants``, a dict of tensors, called once, with the sizes of the observations' terms
        at the mode, [N], if `wants_importance`, otherwise with None.
    wants_importance : bool, default False
    parts : callable, optional
        ``parts(params, constants) -> int32``, a scalar: the number of parts of a chain's next minibatch, for sizes that
        vary. Each part has n observations, and `draw` gets its number as a fourth argument. The estimate is the mean
        over the parts.

    Examples
    --------
    Systematic sampling: every N/n-th observation, starting from a random one. On sorted data such minibatches have less
    noise:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import Minibatch, sgld
    >>> def systematic(N, n):
    ...     if N % n:
    ...         raise ValueError("n must divide N: otherwise the last observations are never drawn")
    ...     def draw(stream, counters, constants):
    ...         first = stream.integers(counters, tf.range(1), N // n)
    ...         return first + N // n * tf.range(n), None
    ...     return Minibatch(n, draw, scale=N / n, without_replacement=True)
    >>> dataset = {"x": np.sort(np.random.default_rng(0).normal(3.0, 1.0, size=1000))}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 3.0}, stepsize=1e-4, minibatchSize=10, nIters=2000, verbose=False, seed=1,
    ...     subsampling=systematic,
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """

    size: int
    draw: Callable[..., tuple[tf.Tensor, tf.Tensor | None]]
    scale: float | None = None
    without_replacement: bool = False
    simple: bool = False
    independent: bool = True
    prepare: Callable[[np.ndarray | None], Tree] = nothing
    wants_importance: bool = False
    parts: Callable[[Tree, Tree], tf.Tensor] | None = None
