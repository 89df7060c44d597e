"""Topics: the result of `lda`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.arguments import POSITIVE, require_number, require_seed
from sgmcmc.core.errors import is_integer, require_count, require_flag
from sgmcmc.draws.draws import Draws
from sgmcmc.draws.panels import COLOURS, panels, require_matplotlib
from sgmcmc.models.lda.documents import checked_documents, checked_vocabulary
from sgmcmc.models.lda.inference import Completion, Inference

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = 5  # of panels


def bars(table: pd.DataFrame, axes: Any, of: str) -> np.ndarray:
    plt = require_matplotlib(of)
    groups = list(table.groupby("topic", sort=False))
    columns = min(len(groups), COLUMNS)
    shape = (-(-len(groups) // columns), columns)
    n_words = int(table["rank"].max())
    size = (0.6 + 2.0 * columns, shape[0] * (0.7 + 0.17 * n_words))
    grid = panels(plt, axes, of, len(groups), shape, figsize=size)
    for ax, (topic, rows) in zip(grid, groups, strict=True):
        error = {"elinewidth": 0.8, "ecolor": "0.4"}
        ax.barh(rows["rank"], rows["probability"], xerr=rows["sd"], color=COLOURS[0], height=0.75, error_kw=error)
        ax.set_yticks(rows["rank"], rows["word"].astype(str))
        ax.set_ylim(n_words + 0.6, 0.4)
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(plt.MaxNLocator(3))
        ax.set_title(f"topic {topic}", loc="left", fontsize="small")
    return grid


def mean_and_sd(draws: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of draws, one at a time, by Welford's recursion; a single draw has sd 0."""
    n, mean, squares = 0, np.zeros(1), np.zeros(1)
    for n, draw in enumerate(draws, start=1):
        before = draw - mean
        mean = mean + before / n
        squares = squares + before * (draw - mean)
    return mean, np.sqrt(squares / max(n - 1, 1))


def top_words(mean: np.ndarray, sd: np.ndarray, vocabulary: np.ndarray, n: int) -> pd.DataFrame:
    """The n most probable words of each topic, [K, V], in order."""
    import pandas as pd

    words = np.argsort(-mean, axis=1, kind="stable")[:, :n]
    return pd.DataFrame(
        {
            "topic": np.repeat(np.arange(len(mean)), n),
            "rank": np.tile(np.arange(1, n + 1), len(mean)),
            "word": vocabulary[words].ravel(),
            "probability": np.take_along_axis(mean, words, axis=1).ravel(),
            "sd": np.take_along_axis(sd, words, axis=1).ravel(),
        }
    )


NAME = "topics"  # of the parameter in the draws


class Topics:
    """Topics of documents: draws from their posterior distribution.

    `lda` makes these objects. They can also be made from stored draws:
    ``Topics(Draws.load("topics.zarr"), docTopicPrior=0.1)``.

    Parameters
    ----------
    draws : Draws
        With the parameter "topics", (T, K, V), or (nChains, T, K, V): T draws of K
        distributions over V words.
    docTopicPrior : float
        As for `lda`.
    vocabulary : sequence of str, optional
        The V words. By default their numbers.

    Attributes
    ----------
    draws : Draws
        The draws, with their seed, settings and timings.
    components : numpy.ndarray
        The posterior mean of the topics, (K, V), each a distribution over the words;
        (nChains, K, V) given `nChains`, since the chains number their topics
        differently. Unlike scikit-learn's, they are normalised.
    vocabulary : numpy.ndarray
        The words, (V,).
    docTopicPrior : float
    timings : dict of str to float
        The times of the run, in seconds.

    Examples
    --------
    See `lda`.
    """

    def __init__(
        self, draws: Draws, docTopicPrior: float, vocabulary: Sequence[str] | np.ndarray | None = None
    ) -> None:
        shape: Sequence[int] = draws[NAME].shape if isinstance(draws, Draws) and NAME in draws else ()
        if len(shape) != (3 if getattr(draws, "nChains", None) is None else 4) or 0 in shape:
            raise ValueError(
                f"draws of Topics must be Draws with at least one draw of the parameter {NAME!r}, a matrix [topics, "
                f"words]; got {draws!r}."
            )
        self.draws = draws
        self.docTopicPrior = require_number("docTopicPrior", "Topics", docTopicPrior, POSITIVE)
        self.vocabulary = checked_vocabulary(vocabulary, "Topics", shape[-1])

    @property
    def components(self) -> np.ndarray:
        """The posterior mean of the topics; see the class."""
        return self._public([mean for mean, _ in self._moments])

    @property
    def timings(self) -> dict[str, float]:
        """The times of the run, in seconds."""
        return self.draws.timings

    def transform(self, docs: Any, *, sweeps: int = 50, seed: int | None = None) -> np.ndarray:
        """The posterior mean of each document's distribution over topics.

        Parameters
        ----------
        docs : sparse matrix or array_like
            Counts, (documents, V), as for `lda`.
        sweeps : int, default 50
            Gibbs sweeps over the topic assignments of the documents for each draw of
            the topics, of which the second half is averaged.
        seed : int, optional
            By default that of the draws, so that the same documents give the same
            result.

        Returns
        -------
        numpy.ndarray
            (documents, K), with rows that add up to 1; given `nChains`, one for each
            chain, (nChains, documents, K).

        Raises
        ------
        ValueError
            If an argument is invalid; the message names it.
        """
        of = "transform"
        counts = checked_documents(docs, of, n_words=len(self.vocabulary))
        inference = Inference(counts, self.docTopicPrior, *self._settings(of, sweeps, seed))
        found = []
        for k in range(self._n_chains):
            total = sum((inference.shares(number, topics) for number, topics in self._of_chain(k)), np.zeros(1))
            found.append(total / total.sum(axis=1, keepdims=True))
        return self._public(found)

    def perplexity(
        self, docs: Any, *, sweeps: int = 50, seed: int | None = None, perDraw: bool = False
    ) -> float | np.ndarray:
        """The perplexity of half of each held-out document, given the other half.

        The tokens of each document are split at random. From the first half, Gibbs sweeps
        infer the document's topics. The second half is scored. This is document completion
        [1]_. Use documents that `lda` has not seen.

        Parameters
        ----------
        docs : sparse matrix or array_like
            Counts, (documents, V), as for `lda`. If the number of tokens is odd, the
            scored half has one more.
        sweeps : int, default 50
            As for `transform`.
        seed : int, optional
            By default that of the draws.
        perDraw : bool, default False
            Whether to score each draw of the topics separately. Otherwise the mean of
            the probabilities over all draws of all chains is scored, which is the
            posterior predictive probability.

        Returns
        -------
        float or numpy.ndarray
            One over the geometric mean of the probabilities of the scored tokens. Smaller is
            better: 1 is the least, and the uniform distribution over the words has V.
            Infinite where a token has probability 0. With `perDraw` one for each draw, (T,)
            or (nChains, T).

        Raises
        ------
        ValueError
            If an argument is invalid; the message names it.

        Notes
        -----
        With x_j the J scored tokens, phi_t the topics of draw t and theta the distribution of
        the token's document over topics, this is::

            exp(-1/J sum_j log(mean over t of
                               E[theta | first half, phi_t] . phi_t[:, x_j]))

        scikit-learn's perplexity is a different quantity: a bound, on the same words from
        which the topics are inferred.

        References
        ----------
        .. [1] Wallach, H. M., Murray, I., Salakhutdinov, R. and Mimno, D. (2009). Evaluation
           methods for topic models. ICML.
        """
        of = "perplexity"
        perDraw = require_flag("perDraw", of, perDraw)
        counts = checked_documents(docs, of, n_words=len(self.vocabulary))
        completion = Completion(counts, self.docTopicPrior, *self._settings(of, sweeps, seed))
        each, total = [], np.zeros(1)
        for number, topics in (draw for k in range(self._n_chains) for draw in self._of_chain(k)):
            probabilities = completion.probabilities(number, topics)
            each.append(completion.perplexity(probabilities))
            total = total + probabilities
        if perDraw:
            return self._public(list(np.reshape(each, [self._n_chains, -1])))
        return completion.perplexity(total / len(each))

    def topWords(self, n: int = 10, *, chain: int = 0) -> pd.DataFrame:
        """The most probable words of each topic.

        Parameters
        ----------
        n : int, default 10
            Number of words for each topic.
        chain : int, default 0
            The number of the chain, given `nChains`.

        Returns
        -------
        pandas.DataFrame
            With the columns topic, rank (from 1), word, probability (the posterior
            mean) and sd (its standard deviation over the draws).
            ``table.pivot(index="topic", columns="rank", values="word")`` has a row for
            each topic.

        Raises
        ------
        ValueError
            If an argument is invalid; the message names it.
        """
        return self._top_words("topWords", n, chain)

    def plot(self, topics: Sequence[int] | None = None, *, n: int = 10, chain: int = 0, axes: Any = None) -> np.ndarray:
        """Plot the most probable words of topics as bars, with their standard deviations.

        Parameters
        ----------
        topics : sequence of int, optional
            Numbers of topics, from 0. By default the first ten.
        n : int, default 10
            Number of words for each topic.
        chain : int, default 0
            The number of the chain, given `nChains`.
        axes : Axes or array of Axes, optional
            The axes to draw into, one for each topic. By default those of a new figure.

        Returns
        -------
        numpy.ndarray of matplotlib.axes.Axes
            One for each topic.

        Raises
        ------
        ValueError
            If an argument is invalid; the message names it.
        """
        n_topics = self._shape[0]
        chosen = list(range(min(n_topics, 10))) if topics is None else list(np.atleast_1d(np.asarray(topics)))
        if not chosen or not all(is_integer(k) and 0 <= k < n_topics for k in chosen):
            raise ValueError(f"topics of plot must be numbers of topics, 0 to {n_topics - 1}; got {topics!r}.")
        table = self._top_words("plot", n, chain).set_index("topic", drop=False)
        return bars(table.loc[chosen].reset_index(drop=True), axes, "plot")

    def _top_words(self, of: str, n: int, chain: int) -> pd.DataFrame:
        n_words, n_chains = self._shape[1], self._n_chains
        n = require_count("n", of, n, 1)
        if n > n_words:
            raise ValueError(f"n of {of} must be at most the {n_words} words; got {n}.")
        if not is_integer(chain) or not 0 <= chain < n_chains:
            raise ValueError(f"chain of {of} must be the number of a chain, 0 to {n_chains - 1}; got {chain!r}.")
        return top_words(*self._moments[chain], self.vocabulary, n)

    @property
    def _shape(self) -> tuple[int, int]:
        return self.draws[NAME].shape[-2:]

    @property
    def _n_chains(self) -> int:
        return self.draws.nChains or 1

    def _of_chain(self, k: int) -> Iterator[tuple[int, np.ndarray]]:
        """The draws of a chain, numbered through all chains; one at a time, since all may not fit into memory."""
        topics = self.draws.groups["posterior"][NAME]
        n_draws = topics.shape[1]
        return ((k * n_draws + t, np.asarray(topics[k, t])) for t in range(n_draws))

    @cached_property
    def _moments(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [mean_and_sd(topics for _, topics in self._of_chain(k)) for k in range(self._n_chains)]

    def _public(self, of_chains: list[np.ndarray]) -> np.ndarray:
        return of_chains[0] if self.draws.nChains is None else np.stack(of_chains)

    def _settings(self, of: str, sweeps: int, seed: int | None) -> tuple[int, int]:
        return require_count("sweeps", of, sweeps, 1), require_seed(of, self.draws.seed if seed is None else seed)

    def __repr__(self) -> str:
        n_topics, n_words = self._shape
        return f"<{n_topics} topics of {n_words} words, from {self.draws!r}>"
