"""Section 5.5.1 of the thesis of Baker (2018): latent Dirichlet allocation by SCIR and SGRLD, here on the AP corpus.

    python benchmarks/papers/thesis_lda.py --data FOLDER --output FOLDER

Tunes the stepsizes of both on documents of their own. Writes thesis_lda.md, thesis_lda.json and thesis_lda.png, and
prints the top words of ten topics. About forty minutes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from shared import THESIS, Clock, arguments, house_style, plt, table, write

from sgmcmc import lda, polynomial
from sgmcmc.models import Topics
from sgmcmc.models.lda.documents import checked_documents
from sgmcmc.models.lda.inference import Completion

SEEDS, K, MINIBATCH, HELD_OUT = (1, 2, 3, 4, 5), 100, 50, 200
DOC_TOPIC, TOPIC_WORD = 0.1, 0.02  # the priors of all
ITERATIONS, DRAWS, SCORING_SWEEPS = 2000, 40, 50
METHODS = {"SCIR": "scir", "SGRLD": "sgrld"}
# First stepsizes of the schedules, polynomial(a, 100, 0.6), and how long each is tried.
GRID = {"SCIR": (0.05, 0.2, 0.8), "SGRLD": (0.003, 0.01, 0.03, 0.1)}
TRIAL = 600
VARIATIONAL = "variational"
COLOURS = {"SCIR": "#4477aa", "SGRLD": "#ee6677", VARIATIONAL: "#228833"}
SHOWN_TOPICS, SHOWN_WORDS = 10, 8


def corpus(folder: Path) -> tuple[sparse.csr_array, sparse.csr_array, np.ndarray]:
    """Documents to learn from, documents that are held out, and the words."""
    file = np.load(folder / "ap.npz")
    shape = (len(file["indptr"]) - 1, len(file["vocab"]))
    docs = sparse.csr_array((file["data"].astype(np.int64), file["indices"], file["indptr"]), shape=shape)
    held_out, train = np.split(np.random.default_rng(1).permutation(shape[0]), [HELD_OUT])
    return docs[train], docs[held_out], file["vocab"]


class Scores:
    """Held-out perplexity by document completion, of topics that come one after the other."""

    def __init__(self, docs: sparse.csr_array, seed: int) -> None:
        self._completion = Completion(checked_documents(docs, "Scores"), DOC_TOPIC, SCORING_SWEEPS, seed)
        self._probabilities: list[np.ndarray] = []

    def add(self, topics: np.ndarray) -> float:
        """Of these topics alone."""
        number = len(self._probabilities)
        self._probabilities.append(self._completion.probabilities(number, topics.astype(np.float32)))
        return self._completion.perplexity(self._probabilities[-1])

    def averaged(self) -> list[float]:
        """Of the mean of the probabilities under the later half of the topics so far."""
        each = self._probabilities
        return [self._completion.perplexity(np.mean(each[(t + 1) // 2 : t + 1], axis=0)) for t in range(len(each))]


def sampled(
    method: str, stepsize: float, train: sparse.csr_array, held_out: sparse.csr_array, seed: int, iterations: int
) -> tuple[dict, Topics]:
    thin = max(iterations * DRAWS // ITERATIONS, 1)
    topics = lda(
        train, K, DOC_TOPIC, TOPIC_WORD, polynomial(stepsize, 100, 0.6), MINIBATCH, iterations, False, seed,
        method=METHODS[method], burnIn=0, thin=iterations // thin,
    )  # fmt: skip
    scores, seconds = Scores(held_out, seed=1), topics.timings["sampling"]
    alone = [scores.add(draw) for draw in topics.draws["topics"]]
    done = topics.draws.iterations
    found = {"iterations": done.tolist(), "seconds": (seconds * done / iterations).tolist()}
    return found | {"alone": alone, "averaged": scores.averaged()}, topics


def tuned(train: sparse.csr_array, clock: Clock) -> dict[str, dict[float, float]]:
    """The perplexity of each stepsize after a short run, on documents that are held out of those to learn from."""
    tried: dict[str, dict[float, float]] = {name: {} for name in GRID}
    for name, stepsizes in GRID.items():
        for stepsize in stepsizes:
            one, _ = sampled(name, stepsize, train[HELD_OUT:], train[:HELD_OUT], seed=0, iterations=TRIAL)
            tried[name][stepsize] = one["averaged"][-1]
            clock(f"{name}, stepsize {stepsize}: {one['averaged'][-1]:.0f}")
    return tried


def minibatches(train: sparse.csr_array, seed: int) -> Iterator[sparse.csr_matrix]:
    rng = np.random.default_rng(seed)
    while True:
        yield sparse.csr_matrix(train[rng.choice(train.shape[0], MINIBATCH, replace=False)])


def variational(train: sparse.csr_array, held_out: sparse.csr_array, seed: int, seconds: float) -> dict:
    """scikit-learn's online variational Bayes for as long; scored as the samplers are, and not while it is timed."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        K, doc_topic_prior=DOC_TOPIC, topic_word_prior=TOPIC_WORD, batch_size=MINIBATCH,
        total_samples=train.shape[0], random_state=seed,
    )  # fmt: skip
    scores, spent, done = Scores(held_out, seed=1), 0.0, 0
    found: dict[str, list] = {"iterations": [], "seconds": [], "alone": []}
    for batch in minibatches(train, seed):
        begun = time.perf_counter()
        model.partial_fit(batch)
        spent, done = spent + time.perf_counter() - begun, done + 1
        if spent >= seconds * (len(found["alone"]) + 1) / (DRAWS // 2):
            topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
            for key, value in {"iterations": done, "seconds": spent, "alone": scores.add(topics)}.items():
                found[key].append(value)
        if spent >= seconds:
            return found | {"averaged": found["alone"]}  # it has one point estimate, not draws


def of_largest_topics(topics: Topics, train: sparse.csr_array, vocabulary: np.ndarray) -> list[list[str]]:
    """The top words of the topics with most of some documents."""
    last = Topics(topics.draws[-1:], DOC_TOPIC, vocabulary)
    shares = last.transform(train[: HELD_OUT // 2]).mean(axis=0)
    words = last.topWords(SHOWN_WORDS).groupby("topic")["word"].apply(" ".join)
    return [[f"{shares[k]:.1%}", words[k]] for k in np.argsort(-shares)[:SHOWN_TOPICS]]


def main() -> None:
    global SEEDS, K, ITERATIONS, DRAWS, TRIAL
    given, clock = arguments(__doc__), Clock()
    if given.quick:
        SEEDS, K, ITERATIONS, DRAWS, TRIAL = (1,), 20, 40, 4, 20
    train, held_out, vocabulary = corpus(given.data)
    tried = tuned(train, clock)
    best = {name: min(of_grid, key=lambda stepsize: of_grid[stepsize]) for name, of_grid in tried.items()}
    curves: dict[str, list[dict]] = {name: [] for name in COLOURS}
    words: list[list[str]] = []
    for seed in SEEDS:
        for name in METHODS:
            one, topics = sampled(name, best[name], train, held_out, seed, ITERATIONS)
            curves[name].append(one)
            clock(f"seed {seed}, {name}: {one['averaged'][-1]:.0f} after {one['seconds'][-1]:.0f} s")
            if not words and name == "SCIR":
                words = of_largest_topics(topics, train, vocabulary)
                print("\n".join(f"{share:>6}  {text}" for share, text in words), flush=True)
        seconds = curves["SCIR"][-1]["seconds"][-1]
        one = variational(train, held_out, seed, seconds)
        curves[VARIATIONAL].append(one)
        clock(f"seed {seed}, {VARIATIONAL}: {one['averaged'][-1]:.0f} after {one['iterations'][-1]} minibatches")
    (given.output / "thesis_lda.json").write_text(json.dumps(curves, indent=1) + "\n")
    draw(curves, given.output / "thesis_lda.png")
    text(given, clock, tried, curves, words, train, held_out)


def draw(curves: dict[str, list[dict]], path: Path) -> None:
    house_style()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for name, runs in curves.items():
        for k, one in enumerate(runs):
            style = {"color": COLOURS[name], "linewidth": 1, "label": None if k else name}
            axes[1].plot(one["seconds"], one["averaged"], **style)
            if name != VARIATIONAL:
                axes[0].plot(one["iterations"], one["averaged"], **style)
                axes[0].plot(one["iterations"], one["alone"], **style | {"linewidth": 0.5, "alpha": 0.6, "label": None})
    axes[0].set(xlabel="iterations", ylabel="held-out perplexity", yscale="log")
    axes[1].set(xlabel="seconds")
    axes[0].yaxis.set_major_formatter("{x:,.0f}")
    axes[0].yaxis.set_minor_formatter("{x:,.0f}")
    axes[1].legend(frameon=False)
    figure.savefig(path, dpi=130)


def spread(values: list[float]) -> str:
    return f"{np.mean(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def text(given: Any, clock: Clock, tried: dict, curves: dict, words: list, train: Any, held_out: Any) -> None:
    rows = []
    for name, runs in curves.items():
        alone = "" if name == VARIATIONAL else spread([one["alone"][-1] for one in runs])
        speed = np.median([one["iterations"][-1] / one["seconds"][-1] for one in runs])
        last = [one["iterations"][-1] for one in runs]
        rows.append([name, spread(last), spread([one["seconds"][-1] for one in runs]), f"{speed:.1f}", alone])
        rows[-1].append(spread([one["averaged"][-1] for one in runs]))
    scir, sgrld, other = (np.mean([one["averaged"][-1] for one in curves[name]]) for name in COLOURS)
    judged = [
        [
            "SCIR keeps descending past where SGRLD begins to converge (figure 5.5.1a, Wikipedia)",
            f"in the end SCIR has {scir:,.0f}, SGRLD {sgrld:,.0f}, {sgrld / scir - 1:+.1%}",
        ],
        ["(nothing is said of it) variational Bayes in the same time", f"{other:,.0f}, {other / scir - 1:+.1%}"],
    ]
    parts = [
        "# Topics of news: SCIR and SGRLD",
        f"{THESIS}, section 5.5.1, which has articles of Wikipedia. Here the AP corpus: {train.shape[0]:,} "
        f"documents to learn from, {held_out.shape[0]} held out, {train.shape[1]:,} words. {K} topics, minibatches of "
        f"{MINIBATCH} documents, {ITERATIONS:,} iterations, seeds {SEEDS[0]} to {SEEDS[-1]}. All have the same priors: "
        f"{DOC_TOPIC} for the topics of a document, {TOPIC_WORD} for the words of a topic.",
        "Perplexity is by document completion: half of the tokens of a held-out document tell of its topics, and the "
        "other half are scored. *Alone* is that of the last draw, *averaged* of the mean of the probabilities under "
        "the later half of the draws. *Variational* is scikit-learn's online variational Bayes with the same priors "
        "and minibatches of the same size, for as many seconds as SCIR took; it is scored in the same way. It runs in "
        "one thread, the samplers in as many as there are. Means over the seeds, with the least and the largest.",
        table(["", "minibatches", "seconds", "per second", "alone", "averaged"], rows),
        "![Perplexity against iterations and against seconds](thesis_lda.png)",
        "Left, thin lines are single draws. Seconds are with compilation.",
        "## Stepsizes",
        f"`polynomial(a, 100, 0.6)`, with the best a of each. Tried for {TRIAL} iterations on other held-out "
        "documents, averaged perplexity:",
        table(["", "a", "perplexity"], [[name, a, f"{p:,.0f}"] for name in tried for a, p in tried[name].items()]),
        "## What is published, and what came out",
        table(["published", "here"], judged, words=True),
        f"## The {SHOWN_TOPICS} largest topics of the first run",
        table(["share of tokens", "top words"], words, words=True),
        f"{clock.minutes} minutes.",
    ]
    write(given.output / "thesis_lda.md", parts)


if __name__ == "__main__":
    main()
