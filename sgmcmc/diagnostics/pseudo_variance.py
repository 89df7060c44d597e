"""pseudoVariance: the exact variance of a sampler's estimated gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.arguments.sampler import Sgmcmc
from sgmcmc.arguments.trial import HALF, WHOLE, Sums, require_sum
from sgmcmc.core.errors import refused, require_flag
from sgmcmc.core.progress import Progress
from sgmcmc.core.tracing import trace
from sgmcmc.core.trees import Tree, joined
from sgmcmc.dataset import derivative_block
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.diagnostics._per_draw import read_finite
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.minibatch.weighted import probabilities_of
from sgmcmc.run.product import ProductSampler

NAME = "pseudoVariance"


def pseudoVariance(sampler: Sgmcmc, params: Mapping[str, Any], optimal: bool = False, verbose: bool = False) -> Any:
    """The variance of a sampler's estimated gradient, summed over all elements, at given points.

    This is the trace of the covariance of the estimate over all minibatches. It is
    computed exactly from all N observations, without drawing a minibatch. With t_i the
    term of observation i, which is its gradient or, for control variates, the
    difference from its gradient at the mode, the variance is [1]_::

        N^2/n (N - n)/(N - 1) (mean |t_i|^2 - |mean t_i|^2)    uniformly without replacement
        1/n (sum |t_i|^2 / p_i - |sum t_i|^2)                  with replacement, with probabilities p_i

    Parameters
    ----------
    sampler : Sgmcmc
        The result of a Setup function. If it needs the mode and no session has begun, a
        search finds the mode first.
    params : dict of str to array_like
        The points, (K, *shape) for each parameter, such as the draws of a run.
    optimal : bool, default False
        Use the optimal probabilities at each point, proportional to ``|t_i|``, instead
        of the sampler's. The result is a lower bound for all subsampling with
        replacement. No sampler can attain it, since these probabilities need all data.
    verbose : bool, default False
        Show the progress.

    Returns
    -------
    numpy.ndarray
        (K,), in float64, in units of the squared gradient of the log posterior.

    Raises
    ------
    ValueError
        If an argument is invalid, or for `saga` and `svrg`, whose noise depends on the
        history of the chain.

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS, section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgldSetup
    >>> from sgmcmc.diagnostics import pseudoVariance
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> dataset = {"x": np.array([1.0, 2.0, 3.0, 4.0])}
    >>> sampler = sgldSetup(logLik, dataset, {"theta": 0.0}, 1e-2, minibatchSize=2, subsampling="withReplacement")
    >>> pseudoVariance(sampler, {"theta": [2.5, 0.0]})
    array([10., 10.])
    """
    inner = _checked_sampler(sampler)
    shown = require_flag("verbose", NAME, verbose)
    points = read_finite(NAME, "params", params, None, sorted(inner.start))
    for name, shape in points.shapes.items():
        if shape != (wanted := inner.start[name].shape):
            must = f"have the shape (K, {', '.join(map(str, wanted))}) for K points"
            raise refused(NAME, f"params[{name!r}]", must, points.arrays[name].shape)
    constants, posterior = sampler.prepared(shown).constants, Posterior(inner.model, points.shapes)
    terms, n_data = inner.gradient.terms, inner.data.size
    assert terms is not None
    p = probabilities_of(constants["minibatch"])
    weights = (np.ones(n_data) if p is None else 1 / (n_data * p)).astype(inner.dtype.as_numpy_dtype)  # 1/(N p_i)

    def moments(words: tf.Tensor, theta: tf.Tensor, weights: tf.Tensor) -> list[tf.Tensor]:
        t = joined(terms(posterior.split(theta), inner.data.layout.unpack(words), constants["estimator"], None))
        t = tf.cast(t, tf.float64)
        squares = tf.reduce_sum(t**2, axis=1)
        weighted = tf.reduce_sum(squares * tf.cast(weights, tf.float64))
        return [tf.reduce_sum(t, axis=0), weighted, tf.reduce_sum(tf.sqrt(squares))]

    of_all = FullPass(inner.data, moments, derivative_block(inner.data, posterior.size))
    found = np.empty(int(np.prod(points.lead)))
    with Progress(len(found), "pseudo-variance", "point", shown) as progress:
        for k, theta in enumerate(points.flat()):
            tensor = tf.constant(theta, inner.dtype)
            total, squares, norms = of_all.summed([tensor], of_each=[weights])
            n = _size(inner.minibatch, posterior.split(tensor), constants["minibatch"])
            if optimal:
                noise = (norms**2 - (total**2).sum()) / n
            else:
                left = (n_data - n) / max(n_data - 1, 1) if inner.minibatch.without_replacement else 1.0
                noise = (n_data * squares - (total**2).sum()) * left / n
            found[k] = max(noise, 0.0)
            progress.reached(k + 1)
    return found.reshape(points.lead)


def _checked_sampler(sampler: Sgmcmc) -> ProductSampler:
    """The sampler inside, whose noise follows from single observations and is that of `params`."""
    if not isinstance(sampler, Sgmcmc):
        raise refused(NAME, "sampler", "be the result of a Setup function", type(sampler).__name__)
    inner = sampler._sampler
    if not isinstance(inner, ProductSampler):
        raise refused(NAME, "sampler", "estimate gradients", f"{inner.name}, which has none")
    if inner.gradient.terms is None or inner.gradient.has_history:
        raise ValueError(
            f"sampler of {NAME} must estimate gradients by the plain estimate or by control variates around the mode; "
            "the noise of saga and svrg depends on the history of the chain."
        )
    if not inner.minibatch.simple and inner.minibatch.parts is None:
        raise ValueError(
            f"sampler of {NAME} must draw observations independently (`simple`), so that the noise follows from single "
            "observations; got a subsampling scheme that does not declare this."
        )
    if inner.gibbs is not None:
        raise ValueError(f"sampler of {NAME} must have gibbs=None, since gibbs moves parameters without a gradient.")
    if inner.model.by_rows and inner.gradient.centred:
        raise ValueError(
            f"sampler of {NAME} must move whole parameters, as with preconditioner='diagonal'; got one that moves only "
            f"the rows of {sorted(inner.model.by_rows)} that a minibatch gathers, on which the gradient at the centre "
            "depends."
        )
    if inner.transforms:
        must = "have no transforms, since its gradients are with respect to other parameters"
        raise refused(NAME, "sampler", must, f"transforms of {sorted(inner.transforms.each)}")
    specs = {name: tf.TensorSpec(theta.shape, theta.dtype) for name, theta in inner.start.items()}
    whole, half = (trace(inner.model.log_lik_gradient, specs, inner.data.layout.specs([n])) for n in (WHOLE, HALF))
    require_sum(NAME, Sums(whole, half, inner.data, inner.start), "the terms of single observations")
    return inner


def _size(minibatch: Any, params: Tree, constants: Tree) -> int:
    """The number of observations in a minibatch at these params."""
    return minibatch.size * (1 if minibatch.parts is None else int(minibatch.parts(params, constants)))
