"""A joint distribution of TensorFlow Probability: its density by parts, its supports, and where a chain may start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import attempted
from sgmcmc.core.probability import may_be_of_tfp, tfp
from sgmcmc.core.types import Tree

DRAWS = 31  # from which a start is computed
SAME = 1e-5  # relative difference of two bijectors that do not depend on the other parameters


def is_joint(value: Any) -> bool:
    """Whether this is a joint distribution; TensorFlow Probability is imported only if it may be."""
    return may_be_of_tfp(value) and isinstance(value, tfp().distributions.JointDistribution)


@dataclass(frozen=True)
class Joint:
    """The parts of a joint distribution.

    Parameters
    ----------
    label : str
        For messages: what has to be such a distribution, and of which function.
    distribution : tfp.distributions.JointDistribution
    advice : callable, optional
        Makes of the text of an error what is to be added to it.
    """

    label: str
    distribution: Any
    advice: Callable[[str], str] = lambda error: ""

    @cached_property
    def example(self) -> dict[str, np.ndarray]:
        """One draw of all parts, the same in every call."""
        return self._draw(0)

    def _draw(self, k: int) -> dict[str, np.ndarray]:
        def drawn() -> dict[str, np.ndarray]:
            draw = _named(self.distribution.sample(seed=tf.constant([0, k])))
            return {name: np.asarray(x) for name, x in draw.items()}

        must = f"{self.label} must be a joint distribution with a name for each part that can be sampled"
        result: dict[str, np.ndarray] = attempted(must, drawn, self.advice)
        return result

    @property
    def names(self) -> list[str]:
        """Those of all parts."""
        return sorted(self.example)

    def log_density(self, values: Tree, of: Collection[str]) -> tf.Tensor:
        """The log density of some of the parts given the others, each summed over its elements."""
        parts = _named(self.distribution.log_prob_parts(**values))
        return tf.add_n([tf.reduce_sum(parts[name]) for name in sorted(of)])

    def log_prior(self, params: Tree) -> tf.Tensor:
        """The log density of all parts."""
        return self.log_density(params, params)

    def transforms(self, given: Mapping[str, Any] | None, but: Collection[str] = ()) -> dict[str, Any]:
        """Those given, and for each other part that is not any real numbers its default bijector; none for `but`.

        Raises
        ------
        ValueError
            If a part is discrete, or if its support depends on another part.
        """
        found = dict(given or {})
        first_parts, second_parts = self._parts(0), self._parts(1)
        for name in sorted(self.example.keys() - {*found, *but}):
            first, second = self._bijector(name, first_parts), self._bijector(name, second_parts)
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

    def start(self, of: Collection[str]) -> dict[str, np.ndarray]:
        """The elementwise median of a few draws of some parts, on the scale that the chain moves."""
        draws, parts, start = [self._draw(k) for k in range(DRAWS)], self._parts(0), {}
        for name in of:
            bijector, values = self._bijector(name, parts), [draw[name] for draw in draws]
            u = np.nanmedian([bijector.inverse(tf.constant(x)) for x in values], axis=0).astype(values[0].dtype)
            start[name] = np.asarray(bijector.forward(tf.constant(u)))
        return start

    def _parts(self, k: int) -> dict[str, Any]:
        """The distribution of each part, given the k-th draw of the others."""
        return _named(self.distribution.sample_distributions(seed=tf.constant([0, k]))[0])

    def _bijector(self, name: str, parts: Mapping[str, Any]) -> Any:
        """The default bijector of a part.

        Raises
        ------
        ValueError
            If the part is discrete.
        """
        bijectors, distributions = tfp().bijectors, tfp().distributions
        inner = parts[name]
        while isinstance(inner, distributions.Independent | distributions.Sample):
            inner = inner.distribution
        if isinstance(inner, distributions.Dirichlet):  # its own cannot be made with NumPy 2.4
            return bijectors.IteratedSigmoidCentered()
        bijector = parts[name].experimental_default_event_space_bijector()
        if bijector is None:
            raise ValueError(f"{self.label} must have parts with a density; got the discrete {name!r}.")
        return bijector


def _named(parts: Any) -> dict[str, Any]:
    """The parts by name."""
    if hasattr(parts, "_asdict"):
        parts = parts._asdict()
    if not isinstance(parts, Mapping):
        raise TypeError("its parts have no names; use JointDistributionNamed, or JointDistributionCoroutine with name=")
    return dict(parts)
