"""A joint distribution of TensorFlow Probability: its density by parts, its supports, and where a chain may start."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import attempted
from sgmcmc.core.probability import tfp
from sgmcmc.core.types import Tree
from sgmcmc.model import LogPrior

DRAWS = 31  # from which a start is computed
SAME = 1e-5  # relative difference of two bijectors that do not depend on the other parameters


def is_joint(value: Any) -> bool:
    """Whether this is a joint distribution; TensorFlow Probability is imported only if it may be."""
    if not any(base.__module__.startswith("tensorflow_probability") for base in type(value).__mro__):
        return False
    return isinstance(value, tfp().distributions.JointDistribution)


@dataclass(frozen=True)
class Joint:
    """The parts of a joint distribution.

    Parameters
    ----------
    label : str
        For messages: what has to be such a distribution, and of which function.
    distribution : tfp.distributions.JointDistribution
    """

    label: str
    distribution: Any

    @cached_property
    def example(self) -> dict[str, np.ndarray]:
        """One draw of all parts, the same in every call."""
        return self._draw(0)

    def _draw(self, k: int) -> dict[str, np.ndarray]:
        def drawn() -> dict[str, np.ndarray]:
            draw = _named(self.distribution.sample(seed=tf.constant([0, k])))
            return {name: np.asarray(x) for name, x in draw.items()}

        must = f"{self.label} must be a joint distribution with a name for each part that can be sampled"
        result: dict[str, np.ndarray] = attempted(must, drawn)
        return result

    @property
    def names(self) -> list[str]:
        """Those of all parts."""
        return sorted(self.example)

    def log_density(self, values: Tree, of: Collection[str]) -> tf.Tensor:
        """The log density of some of the parts given the others, each summed over its elements."""
        parts = _named(self.distribution.log_prob_parts(**values))
        return tf.add_n([tf.reduce_sum(parts[name]) for name in sorted(of)])

    def transforms(self, but: Collection[str] = ()) -> dict[str, Any]:
        """What each part that is not any real numbers is, for the argument `transforms`, except of those in `but`.

        Raises
        ------
        ValueError
            If a part is discrete, or if its support depends on another part.
        """
        found = {}
        for name in self.names:
            if name in but:
                continue
            first, second = (self._bijector(name, k) for k in (0, 1))
            if first is None:
                raise ValueError(f"{self.label} must have parts with a density; got the discrete {name!r}.")
            u = first.inverse(tf.constant(self.example[name]))
            at_first, at_second = first.forward(tf.identity(u)), second.forward(tf.identity(u))
            if not np.allclose(at_first, at_second, rtol=SAME, atol=SAME):
                raise ValueError(
                    f"{self.label} must have parts whose supports do not depend on other parts; got {name!r}, which "
                    f"has. Give transforms[{name!r}], or write the model with a part of a fixed support."
                )
            z = np.linspace(-1, 1, int(np.prod(u.shape)), dtype=u.dtype.as_numpy_dtype).reshape(u.shape)
            if u.shape != at_first.shape or not np.array_equal(first.forward(tf.constant(z)), z):
                found[name] = first
        return found

    def start(self) -> dict[str, np.ndarray]:
        """The elementwise median of a few draws, on the scale that the chain moves."""
        draws, start = [self._draw(k) for k in range(DRAWS)], {}
        for name in self.names:
            values = [draw[name] for draw in draws]
            bijector = self._bijector(name, 0)
            if bijector is None or not np.issubdtype(values[0].dtype, np.floating):
                start[name] = np.median(values, axis=0).astype(values[0].dtype)
                continue
            u = np.nanmedian([bijector.inverse(tf.constant(x)) for x in values], axis=0).astype(values[0].dtype)
            start[name] = np.asarray(bijector.forward(tf.constant(u)))
        return start

    def _bijector(self, name: str, k: int) -> Any:
        """The default bijector of a part, given the k-th draw of the others; None for a discrete part."""
        bijectors, distributions = tfp().bijectors, tfp().distributions
        part = _named(self.distribution.sample_distributions(seed=tf.constant([0, k]))[0])[name]
        inner = part
        while isinstance(inner, distributions.Independent | distributions.Sample):
            inner = inner.distribution
        if isinstance(inner, distributions.Dirichlet):  # its own cannot be made with NumPy 2.4
            return bijectors.IteratedSigmoidCentered()
        return part.experimental_default_event_space_bijector()


def density(joint: Joint) -> LogPrior:
    """The log density of all parts, as a function of them."""
    return lambda params: joint.log_density(params, params)


def _named(parts: Any) -> dict[str, Any]:
    """The parts by name."""
    if hasattr(parts, "_asdict"):
        parts = parts._asdict()
    if not isinstance(parts, Mapping):
        raise TypeError("its parts have no names; use JointDistributionNamed, or JointDistributionCoroutine with name=")
    return dict(parts)
