"""NUTS of blackjax on all data of a logistic regression: window adaptation and draws, within a time limit.

    python nuts.py input.npz draws.npy '{"seconds": 240, "given": false}'

The input holds X with the column of the intercept, y, and the mode and the inverse curvature there. `given` hands both
to NUTS, which then only adapts its stepsize, in a short while. Prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.window_adaptation import base, build_schedule

WARM_UP, WARM_UP_GIVEN, MOST = 500, 50, 2000


def main(path: str, output: str, settings: dict) -> None:
    file = np.load(path)
    X, y = jnp.asarray(np.ascontiguousarray(file["X"].T)), jnp.asarray(file["y"])  # [D, N]: three times as fast
    given, limit = settings["given"], settings["seconds"]
    started, worked = time.perf_counter(), time.process_time()

    def log_density(theta: jax.Array, X: jax.Array, y: jax.Array) -> jax.Array:
        logits = theta @ X
        return jnp.sum(y * logits - jax.nn.softplus(logits)) - 0.5 * jnp.sum(theta**2)

    kernel = blackjax.nuts.build_kernel()

    @partial(jax.jit, static_argnames="slow")
    def adapt(key, state, adapting, last, X, y, slow):
        density = partial(log_density, X=X, y=y)
        state, info = kernel(key, state, density, adapting.step_size, adapting.inverse_mass_matrix)
        return state, update(adapting, (int(slow), last), state.position, info.acceptance_rate), info

    @jax.jit
    def draw(key, state, step_size, inverse_mass, X, y):
        return kernel(key, state, partial(log_density, X=X, y=y), step_size, inverse_mass)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        inverse_mass = jnp.asarray(file["covariance"], jnp.float32) if given else None
        init, update, final = base(not given, initial_inverse_mass_matrix=inverse_mass)
    start = jnp.asarray(file["mode"], jnp.float32) if given else jnp.zeros(len(X), jnp.float32)
    state = blackjax.nuts.init(start, partial(log_density, X=X, y=y))
    adapting = init(start, 1.0)
    schedule = [(0, False)] * WARM_UP_GIVEN if given else build_schedule(WARM_UP)
    key, warmed, leaps, draws = jax.random.key(1), 0, 0, []
    for slow, last in np.asarray(schedule).tolist():
        if time.perf_counter() - started > limit:
            break
        key, one = jax.random.split(key)
        state, adapting, info = adapt(one, state, adapting, bool(last), X, y, slow=bool(slow))
        warmed, leaps = warmed + 1, leaps + int(info.num_integration_steps)
    warm_up = time.perf_counter() - started
    step_size, inverse_mass = final(adapting)
    while time.perf_counter() - started < limit and len(draws) < MOST:
        key, one = jax.random.split(key)
        state, info = draw(one, state, step_size, inverse_mass, X, y)
        leaps += int(info.num_integration_steps)
        draws.append(np.asarray(state.position))
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    np.save(output, np.asarray(draws, np.float32).reshape(1, -1, len(X)))
    told = {
        "seconds": seconds,
        "work": work,
        "warm_up": warm_up,
        "warmed": warmed,
        "to_warm": len(schedule),
        "draws": len(draws),
    }
    print(json.dumps(told | {"gradients": leaps * len(y), "stepsize": float(step_size)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
