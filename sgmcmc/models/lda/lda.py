"""Latent Dirichlet allocation: lda.

A minibatch needs many tokens: the noise of the counts and the cost of an iteration per
token both fall with their number. If the documents are few and long, it needs some more.
Topics that are found quickly need only a few passes over a large corpus; a small corpus
needs more passes, since each is only a few iterations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import POSITIVE, checked_chains, require_number, require_seed
from sgmcmc.arguments.minibatch import checked_minibatches
from sgmcmc.arguments.signatures import SETUP_DEFAULTS, of_run
from sgmcmc.arguments.simplex import SimplexChoices, set_up, warn_of_rounding
from sgmcmc.core.errors import require_count, require_flag
from sgmcmc.core.random import Purpose, Stream, fresh_seed, keys
from sgmcmc.core.schedules import Schedule, polynomial
from sgmcmc.kernel.simplex import Counts
from sgmcmc.models.lda.assignments import expected
from sgmcmc.models.lda.documents import checked_documents, checked_vocabulary, tokens
from sgmcmc.models.lda.topics import NAME, Topics
from sgmcmc.parallel.executors import Executor
from sgmcmc.simplex.scir import scir
from sgmcmc.simplex.sgrld import sgrld

OF = "lda"
METHODS = {"scir": (scir, polynomial(0.2, 100, 0.6)), "sgrld": (sgrld, polynomial(0.03, 100, 0.6))}
SPREAD = 0.2  # standard deviation of the log probabilities with which topics start
DRAWS = 20  # stored for each chain by default
TOKENS, DOCUMENTS = 2**14, 200  # of a minibatch, at least
PASSES, ALL_TOKENS = 3, 10**6  # of a run, at least
MOST_ITERATIONS = 1000  # enough for a small corpus


def documents_of_a_minibatch(asked: Any, n_documents: int, n_tokens: int) -> Any:
    """The size of a minibatch, at most all documents; the sampler checks a given number."""
    if asked is None:
        return min(n_documents, max(DOCUMENTS, math.ceil(TOKENS * n_documents / n_tokens)))
    is_number = isinstance(asked, int | float | np.number) and not isinstance(asked, bool)
    return min(asked, n_documents) if is_number and float(asked).is_integer() else asked


def iterations(size: int, n_documents: int, n_tokens: int) -> int:
    a_pass = n_documents / size
    by_tokens = min(a_pass * ALL_TOKENS / n_tokens, MOST_ITERATIONS)
    return math.ceil(max(PASSES * a_pass, by_tokens))


@dataclass(frozen=True)
class LdaChoices(SimplexChoices):
    n_tokens: int
    method: str
    docTopicPrior: float
    sweeps: int

    @classmethod
    def of(cls, words: np.ndarray, shape: tuple[int, int], chains: range, **given: Any) -> Self:
        """The choices for topics of this shape, [K, V], of documents with these words, [n, longest]."""
        prior, sweeps, starts = given["docTopicPrior"], given["sweeps"], None
        if given["nChains"] is not None:
            starts = {NAME: _starts(given["seed"], chains, *shape)}

        def counts_of_words(params: Mapping[str, tf.Tensor], dataset: Mapping[str, tf.Tensor], seed: tf.Tensor) -> dict:
            return {NAME: expected(dataset["words"], params[NAME], prior, sweeps, seed).counts}

        return cls(
            sampler=OF,
            dataset={"words": words},
            params={NAME: _starts(given["seed"], range(1), *shape)[0]},
            starts=starts,
            subsampling=SETUP_DEFAULTS["subsampling"],
            integers=("words",),
            dtype=SETUP_DEFAULTS["dtype"],
            sharedMinibatch=False,
            suffStats=counts_of_words,
            normalise=True,
            logScale=False,
            **given,
        )

    @cached_property
    def counts(self) -> Counts:
        """`suffStats`, which needs no trial here, and the counts of each topic if all had the same number."""
        in_all = {name: np.full(x.shape[:-1], self.n_tokens / len(x), x.dtype) for name, x in self.start.items()}
        return Counts(self.suffStats, takes_seed=True, in_all=in_all)

    @property
    def settings(self) -> dict[str, Any]:
        own = {"method": self.method, "docTopicPrior": self.docTopicPrior, "sweeps": self.sweeps}
        return super().settings | own


def lda(
    docs: Any,
    nTopics: int,
    docTopicPrior: float = 0.1,
    topicWordPrior: float = 0.02,
    stepsize: float | Schedule | None = None,
    minibatchSize: float | None = None,
    nIters: int | None = None,
    verbose: bool = True,
    seed: int | None = None,
    *,
    method: str = "scir",
    sweeps: int = 20,
    vocabulary: Sequence[str] | np.ndarray | None = None,
    burnIn: int | None = None,
    thin: int | None = None,
    nChains: int | range | None = None,
    storage: str | Path | None = None,
    resume: bool = False,
    executor: Executor | None = None,
    chainsPerJob: int | None = None,
) -> Topics:
    """Latent Dirichlet allocation: the topics of documents, from minibatches of them.

    Each document has a distribution theta over K topics, each topic a distribution phi
    over V words, and each token is drawn from one topic of its document [1]_::

        phi_k ~ Dirichlet(topicWordPrior),    theta_d ~ Dirichlet(docTopicPrior)
        z_di ~ Categorical(theta_d),          word_di ~ Categorical(phi_{z_di})

    An iteration draws a minibatch of documents, the topic assignments z of their tokens
    by Gibbs sweeps given phi, and then phi by `scir` [2]_ or `sgrld` [3]_ from the
    expected counts of the words in the topics.

    Parameters
    ----------
    docs : sparse matrix or array_like
        Counts: how often each of V words, in columns, occurs in each document, in rows,
        as scikit-learn's ``CountVectorizer`` makes them. A SciPy sparse matrix, or a
        dense one. At least two documents, each with a word. In memory they are an int32
        array with a row for each document, each as long as the longest document.
    nTopics : int
        K, at least 2.
    docTopicPrior : float, default 0.1
        The parameter of the Dirichlet prior of theta; below 1, a document has few
        topics. scikit-learn's default is 1/K.
    topicWordPrior : float, default 0.02
        The parameter of the Dirichlet prior of phi. A smaller value gives topics with
        fewer words. scikit-learn's default is 1/K.
    stepsize : float or schedule, optional
        As for `scir` and `sgrld`. By default ``polynomial(0.2, 100, 0.6)`` for "scir"
        and ``polynomial(0.03, 100, 0.6)`` for "sgrld". These are large at first, so
        that the topics form quickly, and then smaller, since the stepsize multiplies
        the minibatch noise.
    minibatchSize : int or float, optional
        Documents per iteration, or a proportion of them in (0, 1). At most all of them.
        By default enough to have 16,384 tokens, but at least 200.
    nIters : int, optional
        Iterations. By default enough for three passes over the documents, and at least
        enough to draw a million tokens or 1,000, whichever is fewer.
    verbose : bool, default True
        Whether to show a progress bar.
    seed : int, optional
        From 0 to 2**64 - 1. The same seed gives the same draws; without one, a fresh
        seed is drawn.
    method : {"scir", "sgrld"}, default "scir"
        How topics are drawn. "sgrld" makes Euler steps, which are cheaper but biased near
        0, where most word probabilities of most topics lie.
    sweeps : int, default 20
        Gibbs sweeps per iteration, at least 2. The counts of the second half are averaged.
        With too few sweeps, the assignments stay near their start, equal shares of all
        topics.
    vocabulary : sequence of str, optional
        The V words, such as ``vectorizer.get_feature_names_out()``, for tables and
        plots.
    burnIn : int, optional
        Iterations at the start that are not stored. By default the first half.
    thin : int, optional
        Store the last of every `thin` iterations. By default such that about 20 draws
        are stored, since each has K V numbers.
    nChains : int or range, optional
        The number of chains to run at once. Each starts from its own topics, and the order
        of topics differs between chains.
    storage : str or Path, optional
        A Zarr store for the draws, "name.zarr", as for `scir`.
    resume : bool, default False
        Continue the run in `storage`, as for `scir`. It requires the `seed` of that
        run.
    executor : concurrent.futures.Executor or an object like it, optional
        Its workers run the chains, in groups, as for `sgld`. It requires `nChains`.
    chainsPerJob : int, optional
        Number of chains in each job of `executor`. By default at least 2, and otherwise
        such that there is a job for each worker.

    Returns
    -------
    Topics
        The draws, with `components`, `transform`, `perplexity`,
        `topWords` and `plot`.

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it. Raised before anything is
        computed.
    MemoryError
        If the draws would need more memory than is free; raised before anything is run.
    DivergenceError
        If topics reach NaN or infinity.

    See Also
    --------
    scir, sgrld : The samplers of the topics.

    Notes
    -----
    Topics start near the uniform distribution, each probability with a standard deviation
    of a fifth of its value. If documents are long, topics that start far from each other,
    such as draws from Dirichlet(1), end in worse modes. The expected counts given phi
    yield the gradient for the posterior of phi with all assignments summed out. That
    posterior has many modes, each in K! permutations, and a run finds one. With "scir"
    the distribution differs from it by about one token in each topic; see `scir`.

    As in scikit-learn's ``LatentDirichletAllocation``, `transform` gives the
    distributions over topics of any documents. Unlike there, `components` are
    distributions, not counts, and `perplexity` uses document completion, not a bound.

    References
    ----------
    .. [1] Blei, D. M., Ng, A. Y. and Jordan, M. I. (2003). Latent Dirichlet allocation.
       Journal of Machine Learning Research 3.
    .. [2] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2018). Large-scale
       stochastic sampling from the probability simplex. NeurIPS.
    .. [3] Patterson, S. and Teh, Y. W. (2013). Stochastic gradient Riemannian Langevin
       dynamics on the probability simplex. NeurIPS.

    Examples
    --------
    Documents about two topics, of two words each:

    >>> import numpy as np
    >>> from scipy import sparse
    >>> from sgmcmc import lda
    >>> rng = np.random.default_rng(0)
    >>> likely = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> share = rng.beta(0.3, 0.3, size=200)[:, None]
    >>> p = share * likely[0] + (1 - share) * likely[1]
    >>> docs = sparse.csr_array(rng.multinomial(20, p))
    >>> out = lda(
    ...     docs, 2, nIters=200, vocabulary=["wind", "rain", "goal", "team"],
    ...     verbose=False, seed=1,
    ... )
    >>> words = out.topWords(2).groupby("topic")["word"].apply(sorted)
    >>> sorted(words)
    [['goal', 'team'], ['rain', 'wind']]
    >>> out.transform(docs[:3]).shape
    (3, 2)
    >>> bool(out.perplexity(docs) < 4)
    True
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method of {OF} must be 'scir' or 'sgrld'; got {method!r}.")
    rule, default = METHODS[method]
    counts = checked_documents(docs, OF, at_least=2)
    words = checked_vocabulary(vocabulary, OF, counts.shape[1])
    n_topics = require_count("nTopics", OF, nTopics, 2)
    prior = require_number("docTopicPrior", OF, docTopicPrior, POSITIVE)
    n_sweeps = require_count("sweeps", OF, sweeps, 2)
    chains = checked_chains(OF, nChains)
    n_tokens = int(counts.sum())
    size = documents_of_a_minibatch(minibatchSize, counts.shape[0], n_tokens)
    n_iterations, burn_in, every = _lengths(nIters, burnIn, thin, size, counts.shape[0], n_tokens)
    if require_flag("resume", OF, resume) and seed is None:
        raise ValueError(f"seed of {OF} must be that of the run in storage if resume=True; got None.")
    choices = LdaChoices.of(
        tokens(counts),
        (n_topics, counts.shape[1]),
        chains,
        nChains=nChains,
        stepsize=default if stepsize is None else stepsize,
        minibatchSize=size,
        seed=fresh_seed() if seed is None else require_seed(OF, seed),
        alpha=require_number("topicWordPrior", OF, topicWordPrior, POSITIVE),
        n_tokens=n_tokens,
        method=method,
        docTopicPrior=prior,
        sweeps=n_sweeps,
    )
    if method == "scir":
        warn_of_rounding(choices)
    run: dict[str, Any] = {"thin": every, "burnIn": burn_in, "storage": storage, "resume": resume}
    run |= {"executor": executor, "chainsPerJob": chainsPerJob}
    return Topics(set_up(choices, rule()).run(n_iterations, verbose, **of_run(run)), prior, words)


def _lengths(nIters: Any, burnIn: Any, thin: Any, size: Any, n_documents: int, n_tokens: int) -> tuple[int, int, int]:
    if nIters is None:
        n = checked_minibatches(OF, size, SETUP_DEFAULTS["subsampling"], n_documents, tf.float32).n
        n_iterations = iterations(n, n_documents, n_tokens)
    else:
        n_iterations = require_count("nIters", OF, nIters, 1)
    burn_in = n_iterations // 2 if burnIn is None else require_count("burnIn", OF, burnIn, 0)
    every = max(1, (n_iterations - burn_in) // DRAWS) if thin is None else require_count("thin", OF, thin, 1)
    return n_iterations, burn_in, every


def _starts(seed: int, chains: range, n_topics: int, n_words: int) -> np.ndarray:
    """The starts of the chains, [C, K, V]."""
    stream = Stream(keys(seed, Purpose.START, chains))
    normals = stream.normal(tf.zeros([1], tf.int32), tf.range(n_topics * n_words), tf.float32).numpy()
    weights = np.exp(SPREAD * np.reshape(normals, [len(chains), n_topics, n_words]))
    return weights / weights.sum(axis=-1, keepdims=True)
