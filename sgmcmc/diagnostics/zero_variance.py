"""zvControlVariates: less variance of a mean over the draws, from the gradients at them, after the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sgmcmc.core.warn import warn_user
from sgmcmc.diagnostics._per_draw import PerDraw, paired, read, require_finite
from sgmcmc.output._diagnostics import errors_of_means
from sgmcmc.output.arviz import require_arviz

NAME = "zvControlVariates"
SETTLED = 6.0  # standard errors: 1000 elements of a chain that has settled exceed it once in half a million times
DRAWS_PER_COEFFICIENT = 2  # below that what is left of the variance is a matter of chance


@dataclass(frozen=True)
class ZeroVariance:
    """What `zvControlVariates` returns: a quantity with control variates added, and how much that helps.

    Every field has the form of the quantity: a number or an array for each of its elements, and dicts of them for a
    quantity that is a dict. Standard errors are Monte Carlo standard errors, which take the autocorrelation of the
    chains into account; NaN for fewer than four draws.

    Parameters
    ----------
    values : numpy.ndarray or dict of numpy.ndarray
        The quantity at each draw with its control variates, of the shape in which it was given.
    mean : float, numpy.ndarray or dict of either
        The mean of `values`, over all chains: the estimate with control variates.
    mcse : float, numpy.ndarray or dict of either
        The standard error of `mean`.
    meanBefore : float, numpy.ndarray or dict of either
        The plain mean over the draws.
    mcseBefore : float, numpy.ndarray or dict of either
        The standard error of `meanBefore`.
    varianceFactor : float, numpy.ndarray or dict of either
        The variance of `values` divided by that of the quantity: 0 is perfect, 1 no help. It is that of the same draws
        that chose the coefficients, and so somewhat too small where draws are few for them. 1 for a quantity that does
        not vary.

    Examples
    --------
    See `zvControlVariates`.
    """

    values: Any
    mean: Any
    mcse: Any
    meanBefore: Any
    mcseBefore: Any
    varianceFactor: Any


def zvControlVariates(
    draws: Any,
    gradients: Any = None,
    g: Callable[[Any], Any] | Any = None,
    degree: int = 1,
    *,
    nChains: int | None = None,
) -> ZeroVariance:
    """Zero-variance control variates: a mean over the draws with less variance, from the gradients stored with them.

    Functions of a draw and of the gradient there, whose posterior mean is known to be zero, are added to the quantity,
    such that its variance becomes small and its mean stays. It costs a linear regression after the run.

    The gradients must be those of the log posterior by the parameters themselves. They may be estimates, if these are
    unbiased given the draw: from a minibatch that is independent of the one by which the chain came there, as those
    that a run with ``gradients=True`` stores. The less noise they have the more they help, so most after `sgldcv`.

    Parameters
    ----------
    draws : Draws, dict of str to array_like, or array_like
        What a sampler returned; or draws of your own, with the shape (T, *shape) for T draws.
    gradients : dict of str to array_like, or array_like, optional
        In the shape of the draws; a dict may leave out parameters, which then add no control variates. By default
        those in `draws`.
    g : callable or array_like, optional
        The quantity whose mean is wanted: a function of `draws`, as they were given, or its values. A number or an
        array for each draw, (T,) or (T, k), or a dict of such arrays. By default the parameters.
    degree : int, default 1
        Of the polynomial behind the control variates, 1 or 2: D of them for D elements of the parameters, or
        D (D + 3) / 2. Held in memory, 8 bytes for each of them and of the draws.
    nChains : int, optional
        With it, the arrays of a dict or a plain array have the shape (nChains, T, *shape); so has then what `g`
        gives. A `Draws` knows it.

    Returns
    -------
    ZeroVariance
        With `values`, `mean`, `mcse`, `meanBefore`, `mcseBefore` and `varianceFactor`.

    Raises
    ------
    ValueError
        If there are no gradients, if draws are fewer than twice the coefficients (one for each control variate, and
        the mean), if shapes do not match or numbers are not finite, or if `degree` is neither 1 nor 2.
    ImportError
        If ArviZ is not installed.

    See Also
    --------
    fullGradients : Gradients without noise, from all data.

    Notes
    -----
    With s the gradient, the control variates c are for degree 1 the elements s_j, and for degree 2 also
    theta_i s_j + theta_j s_i for i < j, and 1 + theta_j s_j (thesis of Baker, eq. 3.4.1, for linear and quadratic Q).
    The result is::

        g + a^T c,  a = -Var(c)^(-1) Cov(c, g)

    with the minus sign, which is lost in algorithm 2 there. For a normal posterior and gradients without noise, the
    mean is exact with degree 1, and second moments with degree 2. Where the chain itself is biased, by its stepsize,
    the control variates have means other than zero, and what is estimated is not the mean of that chain. A chain that
    has not settled is warned of, by gradients whose mean is not zero.

    References
    ----------
    .. [1] Mira, A., Solgi, R. and Imparato, D. (2013). Zero variance Markov chain Monte Carlo for Bayesian estimators.
       Statistics and Computing 23.
    .. [2] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2019). Control variates for stochastic gradient MCMC.
       Statistics and Computing 29.

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc.diagnostics import zvControlVariates
    >>> theta = np.random.default_rng(0).normal(3.0, 2.0, size=1000)
    >>> gradients = -(theta - 3.0) / 4
    >>> found = zvControlVariates(theta, gradients)
    >>> round(float(found.mean), 6), bool(found.mcseBefore > 0.05), bool(found.varianceFactor < 1e-12)
    (3.0, True, True)
    >>> square = zvControlVariates(theta, gradients, g=lambda theta: theta**2, degree=2)
    >>> round(float(square.mean), 6)
    13.0
    """
    require_arviz(NAME)
    if isinstance(degree, bool) or degree not in (1, 2):
        raise ValueError(f"degree of {NAME} must be 1 or 2; got {degree!r}.")
    points, scores = paired(NAME, draws, gradients, nChains)
    require_finite(NAME, "draws", points)
    require_finite(NAME, "gradients", scores)
    quantity = _quantity(g, draws, points)
    _require_enough(points, degree)
    _warn_unless_settled(scores)
    before = quantity.flat()
    after = _controlled(before, _controls(points.flat(), scores.flat(), degree))
    spread = before.var(axis=0)
    factor = np.divide(after.var(axis=0), spread, out=np.ones_like(spread), where=spread > 0)
    return ZeroVariance(
        values=quantity.restored(after, quantity.lead),
        mean=quantity.restored(after.mean(axis=0)),
        mcse=quantity.restored(_errors(after, quantity.lead)),
        meanBefore=quantity.restored(before.mean(axis=0)),
        mcseBefore=quantity.restored(_errors(before, quantity.lead)),
        varianceFactor=quantity.restored(factor),
    )


def _quantity(g: Any, draws: Any, points: PerDraw) -> PerDraw:
    if g is None:
        return points
    values = g(draws) if callable(g) else g
    quantity = read(NAME, "g", values, points.lead[0] if len(points.lead) == 2 else None)
    if quantity.lead != points.lead:
        lead = ", ".join(map(str, points.lead))
        shapes = {name: array.shape for name, array in quantity.arrays.items()}
        got = shapes if isinstance(values, Mapping) else next(iter(shapes.values()))
        raise ValueError(f"g of {NAME} must have the shape ({lead}, ...), a value for each draw; got {got}.")
    require_finite(NAME, "g", quantity)
    return quantity


def _require_enough(points: PerDraw, degree: int) -> None:
    n, size = int(np.prod(points.lead)), sum(int(np.prod(shape)) for shape in points.shapes.values())
    n_controls = size if degree == 1 else size * (size + 3) // 2
    least = DRAWS_PER_COEFFICIENT * (n_controls + 1)
    if n < least:
        raise ValueError(
            f"draws of {NAME} must be at least {least}, {DRAWS_PER_COEFFICIENT} for each coefficient of the "
            f"{n_controls} control variates of degree {degree} and {size} elements; got {n}."
        )


def _warn_unless_settled(scores: PerDraw) -> None:
    """A chain that has settled stays where it is, so that its gradients are zero on average."""
    flat = scores.flat()
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.abs(flat.mean(axis=0)) / _errors(flat, scores.lead)
    if np.nanmax(np.append(far, 0.0)) > SETTLED:
        warn_user(
            f"the mean of the gradients of {NAME} is {np.nanmax(far):.0f} standard errors from zero, where it is if "
            "the chain has settled; else control variates move means to a wrong place. Leave out more of the "
            "beginning, or run longer."
        )


def _controls(theta: np.ndarray, s: np.ndarray, degree: int) -> np.ndarray:
    """The control variates, [n, m].

    theta is centred, which changes those of degree 2 by multiples of those of degree 1.
    """
    if degree == 1:
        return s
    theta = theta - theta.mean(axis=0)
    mixed = [theta[:, i] * s[:, j] + theta[:, j] * s[:, i] for i, j in combinations(range(theta.shape[1]), 2)]
    return np.concatenate([s, 1 + theta * s, np.array(mixed).reshape(-1, len(s)).T], axis=1)


def _controlled(g: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """g + c a with the coefficients a = -Var(c)^(-1) Cov(c, g), by least squares on columns of one scale."""
    spread = controls.std(axis=0)
    controls = controls / np.where(spread > 0, spread, 1.0)
    slopes = np.linalg.lstsq(controls - controls.mean(axis=0), g - g.mean(axis=0), rcond=None)[0]
    return g - controls @ slopes


def _errors(flat: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    """Of [C * T, k], the standard errors [k]."""
    return errors_of_means(flat.T.reshape(flat.shape[1], -1, lead[-1]))
