"""The models for both JAX packages, which ask for the log likelihood of one observation and map it themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import PRIOR_SD_MIXTURE, simulate, start
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

Params = dict[str, jax.Array]


def logistic_log_lik(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    z = jnp.dot(x, params["beta"]) + params["bias"]
    return y * z - jax.nn.softplus(z)


def mixture_log_lik(params: Params, x: jax.Array) -> jax.Array:
    components = [jnp.sum(norm.logpdf(x, params[name])) for name in ("theta1", "theta2")]
    return logsumexp(jnp.stack(components)) - jnp.log(2.0)


def network_log_lik(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = jax.nn.softmax(jnp.dot(x, params["B"]) + params["b"])
    return jnp.sum(y * jax.nn.log_softmax(jnp.dot(hidden, params["A"]) + params["a"]))


def standard_normal_log_prior(params: Params) -> jax.Array:
    return -0.5 * sum(jnp.sum(theta**2) for theta in params.values())


def mixture_log_prior(params: Params) -> jax.Array:
    return sum(jnp.sum(norm.logpdf(theta, 0.0, PRIOR_SD_MIXTURE)) for theta in params.values())


LOG_LIKS: dict[str, Callable[..., jax.Array]] = {
    "logistic": logistic_log_lik,
    "mixture": mixture_log_lik,
    "network": network_log_lik,
}
LOG_PRIORS: dict[str, Callable[[Params], jax.Array]] = {
    "logistic": standard_normal_log_prior,
    "mixture": mixture_log_prior,
    "network": standard_normal_log_prior,
}


def simulated_entries(model: str, n_data: int) -> tuple[np.ndarray, ...]:
    """(x, y), or (x,) for the mixture."""
    return tuple(simulate(model, n_data).values())


def start_of(model: str) -> Params:
    """Where the chain starts."""
    return {name: jnp.asarray(theta) for name, theta in start(model).items()}


def to_numpy(draws: Any) -> dict[str, np.ndarray]:
    """The draws as NumPy arrays, when they are ready; on a CPU this copies nothing."""
    return {name: np.asarray(theta) for name, theta in draws.items()}
