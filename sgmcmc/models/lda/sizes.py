"""How many documents and iterations `lda` takes if nobody says, by the size of the corpus.

A minibatch needs many tokens: the noise of the counts falls with their number, and so do
the costs of an iteration for each. With few documents that are long it needs some more.
Topics that are found quickly are found in a few passes over a large corpus; a small one
needs more of them, since each is only a few iterations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

TOKENS, DOCUMENTS = 2**14, 200  # of a minibatch, at least
PASSES, ALL_TOKENS = 3, 10**6  # of a run, at least
MOST_ITERATIONS = 1000  # of a corpus so small that it needs no more


def documents_of_a_minibatch(asked: Any, n_documents: int, n_tokens: int) -> Any:
    """At most all documents; the sampler checks a number that was asked for."""
    if asked is None:
        return min(n_documents, max(DOCUMENTS, math.ceil(TOKENS * n_documents / n_tokens)))
    is_number = isinstance(asked, int | float | np.number) and not isinstance(asked, bool)
    return min(asked, n_documents) if is_number and float(asked).is_integer() else asked


def iterations(size: int, n_documents: int, n_tokens: int) -> int:
    """Of a run with minibatches of this many documents."""
    a_pass = n_documents / size
    by_tokens = min(a_pass * ALL_TOKENS / n_tokens, MOST_ITERATIONS)
    return math.ceil(max(PASSES * a_pass, by_tokens))
