"""zvControlVariates: means over the draws with less variance, from their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sgmcmc.core.errors import refused, warn_user
from sgmcmc.diagnostics._per_draw import PerDraw, paired, read_finite, require_finite
from sgmcmc.draws.arviz import require_arviz
from sgmcmc.draws.convergence import errors_of_means

NAME = "zvControlVariates"
SETTLED = 6.0  # standard errors; 1000 elements of a converged chain exceed it once in half a million chains
DRAWS_PER_COEFFICIENT = 2  # with fewer, the remaining variance depends on chance


@dataclass(frozen=True)
class ZeroVariance:
    """The result of `zvControlVariates`: a quantity with control variates, and errors.

    Every field has the form of the quantity: a number or an array, or a dict of them.
    Standard errors are Monte Carlo standard errors, which allow for the autocorrelation
    of the chains. They are NaN for fewer than four draws.

    Parameters
    ----------
    values : numpy.ndarray or dict of numpy.ndarray
        The quantity plus its control variates at each draw, in the shape of the given
        values.
    mean : float, numpy.ndarray or dict of either
        The mean of `values`, over all chains: the estimate with control variates.
    mcse : float, numpy.ndarray or dict of either
        The standard error of `mean`.
    meanBefore : float, numpy.ndarray or dict of either
        The plain mean over the draws.
    mcseBefore : float, numpy.ndarray or dict of either
        The standard error of `meanBefore`.
    varianceFactor : float, numpy.ndarray or dict of either
        The variance of `values` divided by that of the quantity: 0 is perfect, 1 is no
        gain. The coefficients are fitted to the same draws, so the factor is somewhat
        too small if there are few draws for each coefficient. It is 1 for a quantity
        that does not vary.

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
    """Reduce the variance of a mean over the draws by zero-variance control variates.

    Control variates are functions of a draw and its gradient whose posterior mean is
    zero. The function adds to the quantity the linear combination of them that
    minimises its variance; its mean stays the same. This is a linear regression after
    the run.

    The gradients must be those of the log posterior with respect to the parameters
    themselves. They may be estimates, if these are unbiased given the draw: their
    minibatch must be independent of the one that moved the chain there, as with the
    gradients that a run with ``gradients=True`` stores. Less noisy gradients, such as
    those of `sgldcv`, reduce the variance more.

    Parameters
    ----------
    draws : Draws, dict of str to array_like, or array_like
        The result of a sampler; or your own draws, of shape (T, *shape) for T draws.
    gradients : dict of str to array_like, or array_like, optional
        The gradients at the draws, in their shape. Parameters that a dict leaves out
        give no control variates. By default the gradients stored in `draws`.
    g : callable or array_like, optional
        The quantity whose mean is estimated: a function of `draws` as given, or its
        values. It has a number or an array for each draw, (T,) or (T, k), or is a dict
        of such arrays. By default the parameters.
    degree : int, default 1
        The degree of the polynomial behind the control variates, 1 or 2. For D elements
        of the parameters there are D control variates, or D (D + 3) / 2. They take 8
        bytes of memory for each draw and control variate.
    nChains : int, optional
        The number of chains, if your arrays and the values of `g` have the shape
        (nChains, T, *shape). A `Draws` has its own.

    Returns
    -------
    ZeroVariance
        Its fields are `values`, `mean`, `mcse`, `meanBefore`, `mcseBefore` and
        `varianceFactor`.

    Raises
    ------
    ValueError
        If there are no gradients, if there are fewer than two draws for each
        coefficient (one for each control variate, and one for the mean), if shapes do
        not match, if a number is NaN or infinite, or if `degree` is neither 1 nor 2.

    See Also
    --------
    fullGradients : Gradients without noise, from all data.

    Notes
    -----
    With s the gradient, the control variates c are for degree 1 the elements s_j, and for degree 2 also
    theta_i s_j + theta_j s_i for i < j, and 1 + theta_j s_j (thesis of Baker, eq. 3.4.1, for linear and quadratic Q).
    The result is::

        g + a^T c,  a = -Var(c)^(-1) Cov(c, g)

    Algorithm 2 of the thesis lacks the minus sign. For a normal posterior and gradients
    without noise, degree 1 gives exact means and degree 2 exact second moments. If the
    stepsize biases the chain, the control variates do not have mean zero, and the
    result does not estimate the mean of that chain. If the mean of the gradients is
    clearly not zero, a warning reports that the chain has not converged.

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
        raise refused(NAME, "degree", "be 1 or 2", repr(degree))
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
    quantity = read_finite(NAME, "g", values, points.lead[0] if len(points.lead) == 2 else None)
    if quantity.lead != points.lead:
        lead = ", ".join(map(str, points.lead))
        shapes = {name: array.shape for name, array in quantity.arrays.items()}
        got = shapes if isinstance(values, Mapping) else next(iter(shapes.values()))
        raise refused(NAME, "g", f"have the shape ({lead}, ...), a value for each draw", got)
    return quantity


def _require_enough(points: PerDraw, degree: int) -> None:
    n, size = points.flat().shape
    n_controls = size if degree == 1 else size * (size + 3) // 2
    least = DRAWS_PER_COEFFICIENT * (n_controls + 1)
    if n < least:
        raise ValueError(
            f"draws of {NAME} must be at least {least}, {DRAWS_PER_COEFFICIENT} for each coefficient of the "
            f"{n_controls} control variates of degree {degree} and {size} elements; got {n}."
        )


def _warn_unless_settled(scores: PerDraw) -> None:
    """Warn if the mean gradient is far from zero, its mean in a chain that has converged."""
    flat = scores.flat()
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.abs(flat.mean(axis=0)) / _errors(flat, scores.lead)
    if np.nanmax(np.append(far, 0.0)) > SETTLED:
        warn_user(
            f"the mean of the gradients of {NAME} is {np.nanmax(far):.0f} standard errors from zero. For a chain that "
            "has converged it is near zero; otherwise control variates give wrong means. Discard a longer burn-in, or "
            "run longer."
        )


def _controls(theta: np.ndarray, s: np.ndarray, degree: int) -> np.ndarray:
    """The control variates, [n, m]."""
    if degree == 1:
        return s
    # Centring changes those of degree 2 by multiples of those of degree 1.
    theta = theta - theta.mean(axis=0)
    mixed = [theta[:, i] * s[:, j] + theta[:, j] * s[:, i] for i, j in combinations(range(theta.shape[1]), 2)]
    return np.concatenate([s, 1 + theta * s, np.array(mixed).reshape(-1, len(s)).T], axis=1)


def _controlled(g: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """g + c a with a = -Var(c)^(-1) Cov(c, g), [n, k], by least squares on columns of unit variance."""
    spread = controls.std(axis=0)
    controls = controls / np.where(spread > 0, spread, 1.0)
    slopes = np.linalg.lstsq(controls - controls.mean(axis=0), g - g.mean(axis=0), rcond=None)[0]
    return g - controls @ slopes


def _errors(flat: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    """The standard errors of the means, [k], of values [C * T, k]."""
    return errors_of_means(flat.T.reshape(flat.shape[1], -1, lead[-1]))
