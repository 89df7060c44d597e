"""lipschitzLogistic and lipschitzLinear: Lipschitz constants of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from sgmcmc.arguments import POSITIVE, require_number
from sgmcmc.core.errors import refused
from sgmcmc.dataset.arrays import first_non_finite, numeric


def lipschitzLogistic(X: Any) -> np.ndarray:
    """The Lipschitz constants of the observations' gradients in logistic regression.

    Parameters
    ----------
    X : array_like
        The covariates as the model uses them, (N, d), with a column of ones if it has an intercept.

    Returns
    -------
    numpy.ndarray
        (N,), float64: ``L_i = |x_i|^2 / 4``.

    Raises
    ------
    ValueError
        If `X` is not a matrix of finite numbers.

    See Also
    --------
    lipschitzLinear

    Notes
    -----
    With f_i minus the log likelihood of observation i, labels in {0, 1} or {-1, 1}::

        |grad f_i(x) - grad f_i(y)| <= L_i |x - y|

    since the Hessian of f_i is p (1 - p) x_i x_i^T with a probability p, which is at
    most x_i x_i^T / 4 ([1]_, appendix C.2.2). No smaller constant satisfies this. The
    constants bound the variance of gradients with control variates ([1]_, eq. 17 and
    18).

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS.

    Examples
    --------
    >>> from sgmcmc.diagnostics import lipschitzLogistic
    >>> lipschitzLogistic([[1.0, 0.0], [1.0, 3.0]])
    array([0.25, 2.5 ])
    """
    return 0.25 * _squares("lipschitzLogistic", X)


def lipschitzLinear(X: Any, sigma: float = 1.0) -> np.ndarray:
    """The Lipschitz constants of the observations' gradients in linear regression with normal noise.

    Parameters
    ----------
    X : array_like
        The covariates as the model uses them, (N, d), with a column of ones if it has an intercept.
    sigma : float, default 1.0
        The known standard deviation of the noise.

    Returns
    -------
    numpy.ndarray
        (N,), float64: ``L_i = |x_i|^2 / sigma^2``.

    Raises
    ------
    ValueError
        If `X` is not a matrix of finite numbers, or if `sigma` is not positive.

    See Also
    --------
    lipschitzLogistic

    Notes
    -----
    They are the norms of the Hessians x_i x_i^T / sigma^2, which do not depend on the parameters ([1]_, appendix C.3.2,
    for sigma = 1).

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS.

    Examples
    --------
    >>> from sgmcmc.diagnostics import lipschitzLinear
    >>> lipschitzLinear([[1.0, 0.0], [1.0, 3.0]], sigma=2.0)
    array([0.25, 2.5 ])
    """
    return _squares("lipschitzLinear", X) / require_number("sigma", "lipschitzLinear", sigma, POSITIVE) ** 2


def _squares(function: str, X: Any) -> np.ndarray:
    """The squared norms of the rows, [N], without a copy of the matrix."""
    array = numeric("X", function, X)
    if array.ndim != 2 or array.size == 0:
        raise refused(function, "X", "have the shape (N, d), a row for each observation", f"shape {array.shape}")
    squares = np.einsum("nd,nd->n", array, array, dtype=np.float64, casting="unsafe")
    if not np.isfinite(squares).all():
        if not np.isfinite(array).all():
            raise refused(function, "X", "be finite", first_non_finite(array))
        raise refused(function, "X", "have rows whose squares are finite", f"up to {np.abs(array).max():g}")
    return squares
