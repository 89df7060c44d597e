"""Short sentences on what other choices would gain, from what is expected of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORTH = 1.5  # times fewer gradients for a draw
LARGE, ENOUGH = 3, 1000  # a minibatch is large if it has this many times what pays, or what costs hardly less


def size_that_does(n: int, pays: int) -> int | None:
    """The minibatch size that does as well as n, if n is far larger; `pays` is the one that pays."""
    enough = max(pays, ENOUGH)
    return enough if n > LARGE * enough else None


def advice(settings: Mapping[str, Any]) -> list[str]:
    """What to try; nothing where a run has no expectations."""
    expected = settings.get("expected") or {}
    gains, pays, n = expected.get("gains", {}), expected.get("minibatchSize"), settings.get("minibatchSize")
    sentences = []
    if settings.get("subsampling") == "uniform" and (gain := gains.get("preferential", 0.0)) > WORTH:
        sentences.append(f"subsampling=preferential() would make a draw cost {gain:.1f} times fewer gradients.")
    if isinstance(n, int) and pays is not None:
        if (enough := size_that_does(n, pays)) is not None:
            sentences.append(f"More than minibatchSize={enough} observations hardly make a draw cheaper.")
        elif pays > n:
            sentences.append(f"Up to minibatchSize={pays} a draw takes fewer iterations, almost in proportion.")
    if (gain := gains.get("momentum", 0.0)) > WORTH:
        sentences.append(f"Momentum, such as sghmc with L=20, would make a draw cost {gain:.1f} times fewer gradients.")
    if (gain := gains.get("noMomentum", 0.0)) > WORTH:
        sentences.append(f"Without momentum, as in sgld, a draw would cost {gain:.1f} times fewer gradients.")
    return sentences
