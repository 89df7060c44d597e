"""ksd: the kernel Stein discrepancy of draws from the posterior whose gradients are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sgmcmc.arguments import POSITIVE, require_number
from sgmcmc.core.errors import refused, require_flag
from sgmcmc.diagnostics._per_draw import paired
from sgmcmc.draws.stein import of_arrays


def ksd(
    draws: Any,
    gradients: Any = None,
    *,
    c: float = 1.0,
    beta: float = -0.5,
    scale: float | Mapping[str, Any] = 1.0,
    perCoordinate: bool = False,
    nChains: int | None = None,
) -> Any:
    """The kernel Stein discrepancy of draws from the distribution with these gradients.

    It is small if the draws represent the posterior; bias and too short a chain both
    increase it. It needs no reference draws from the posterior. Its value has no
    absolute scale: use it to compare chains with each other.

    Parameters
    ----------
    draws : Draws, dict of str to array_like, or array_like
        The result of a sampler; or your own draws, of shape (T, *shape) for T draws.
    gradients : dict of str to array_like, or array_like, optional
        The gradients of the log posterior at the draws, in their shape: unbiased
        estimates, or exact ones from `fullGradients`. By default those that a run with
        ``gradients=True`` stored. Noise of variance V adds c^(2 beta) V / T to the mean
        over all pairs, so compare runs with equally noisy gradients and equal numbers
        of draws.
    c : float, default 1.0
        The distance at which the kernel is most sensitive, in units of `scale`.
        Positive.
    beta : float, default -0.5
        The exponent of the kernel, in (-1, 0).
    scale : float or dict of str to array_like, default 1.0
        The divisor of the parameters: one number, or a number or an array for each
        parameter. Use rough posterior standard deviations, the same for all chains to
        be compared.
    perCoordinate : bool, default False
        Whether to return the terms of the sum, one for each element of the parameters.
    nChains : int, optional
        The number of chains, if your arrays have the shape (nChains, T, *shape). A
        `Draws` has its own.

    Returns
    -------
    float or numpy.ndarray or dict of numpy.ndarray
        The sum over all elements, for all chains together; with `perCoordinate` its
        terms, in the shape of a draw. Infinite if a number is NaN or infinite.

    Raises
    ------
    ValueError
        If there are no gradients, if shapes do not match, or if a setting of the kernel is invalid.

    See Also
    --------
    fullGradients : Gradients without noise, from all data.

    Notes
    -----
    With s the gradient of the log posterior, and K the inverse multiquadric kernel::

        K(x, y) = (c^2 + |x - y|^2)^beta
        k_j(x, y) = d^2 K / dx_j dy_j + s_j(x) dK/dy_j + s_j(y) dK/dx_j + s_j(x) s_j(y) K
        KSD = sum_j sqrt( sum of k_j over all pairs of draws / T^2 )

    These are eq. 20 and 21 of [2]_. The sum runs over all pairs, in blocks: the time is
    of order T^2 and the memory of order T. ``out.ksd(scale)`` is the same with c = 1
    and beta = -1/2.

    References
    ----------
    .. [1] Gorham, J. and Mackey, L. (2017). Measuring sample quality with kernels. ICML.
    .. [2] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc.diagnostics import ksd
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> exact = ksd(x, -x)
    >>> wide = x * [1.0, 2.0]
    >>> ksd(wide, -wide) > 2 * exact
    True
    >>> first, second = ksd(wide, -wide, perCoordinate=True)
    >>> bool(first < second)
    True
    """
    c = require_number("c", "ksd", c, POSITIVE)
    beta = require_number("beta", "ksd", beta, (lambda x: -1 < x < 0, "a number in (-1, 0)"))
    perCoordinate = require_flag("perCoordinate", "ksd", perCoordinate)
    points, scores = paired("ksd", draws, gradients, nChains)
    if isinstance(scale, Mapping) and not isinstance(draws, Mapping):
        must = "be a number or an array, since draws are not a dict"
        raise refused("ksd", "scale", must, f"keys {sorted(map(str, scale))}")
    with np.errstate(over="ignore", invalid="ignore"):
        terms = of_arrays(points.arrays, scores.arrays, len(points.lead), scale, c, beta)
    terms = np.where(np.isnan(terms), np.inf, terms)  # of numbers whose squares overflow
    return points.restored(terms) if perCoordinate else float(terms.sum())
