"""lda against scikit-learn's online variational Bayes: perplexity of held-out documents, and time.

The documents are docstrings of Python's standard library and of packages installed with
sgmcmc, by paragraph, by function and by module, and simulated documents. Both methods have
the same priors, 30 topics, and otherwise their defaults; scikit-learn makes two passes. The
perplexity is by document completion: half of the tokens of a document give its topics, which
predict the other half. Times are processor times of a repeated call; the first call in a
process also compiles.
"""

from __future__ import annotations

import argparse
import ast
import re
import sysconfig
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer

import sgmcmc

TOPICS, PRIOR_OF_DOCUMENTS, PRIOR_OF_WORDS = 30, 0.1, 0.02
PACKAGES = ("matplotlib", "numpy", "pandas", "scipy", "sklearn", "tensorflow", "xarray")
WORD = re.compile(r"[a-z]{3,}")
Corpus = tuple[sparse.csr_array, sparse.csr_array]


def docstrings() -> Iterator[list[str]]:
    """Docstrings of each module of the standard library and of some packages."""
    library, packages = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    files = {file for file in library.rglob("*.py") if packages not in file.parents}
    files |= {file for name in PACKAGES for file in (packages / name).rglob("*.py")}
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for file in sorted(files):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError, RecursionError):
            continue
        yield [text for node in ast.walk(tree) if isinstance(node, documented) and (text := ast.get_docstring(node))]


def counted(texts: set[str], n_train: int, n_held: int, shortest: int, longest: int) -> Corpus:
    """Word counts of a sample of the texts that have from `shortest` to `longest` words."""
    chosen = sorted(text for text in texts if shortest <= len(WORD.findall(text.lower())) <= longest)
    order = np.random.default_rng(0).permutation(len(chosen))[: n_train + n_held]
    vectorizer = CountVectorizer(
        token_pattern=WORD.pattern, stop_words="english", min_df=5, max_df=0.2, max_features=10_000
    )
    counts = sparse.csr_array(vectorizer.fit_transform([chosen[i] for i in order])).astype(np.int32)
    counts = counts[np.asarray(counts.sum(axis=1)).ravel() >= 5]
    return counts[:-n_held], counts[-n_held:]


def simulated() -> Corpus:
    """8,500 documents of 120 words on average from 30 topics over 4,000 words."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(4000, 0.05), TOPICS)
    shares = rng.dirichlet(np.full(TOPICS, PRIOR_OF_DOCUMENTS), 8500)
    lengths = np.maximum(rng.negative_binomial(4, 4 / 124, 8500), 5)
    counts = sparse.csr_array(np.array([rng.multinomial(n, p) for n, p in zip(lengths, shares @ topics, strict=True)]))
    return counts[:8000].astype(np.int32), counts[8000:].astype(np.int32)


def corpora() -> dict[str, Corpus]:
    """All corpora, by name."""
    modules = list(docstrings())
    paragraphs = {paragraph for texts in modules for text in texts for paragraph in text.split("\n\n")}
    functions = {text for texts in modules for text in texts}
    return {
        "paragraphs": counted(paragraphs, 22_000, 1000, 10, 80),
        "functions": counted(functions, 8000, 500, 80, 400),
        "simulated": simulated(),
        "modules": counted({"\n".join(texts) for texts in modules}, 4000, 400, 200, 10**6),
    }


def perplexity(components: np.ndarray, held: sparse.csr_array) -> float:
    """Perplexity of one set of topics, [K, V]."""
    draws = sgmcmc.Draws(
        {"posterior": {"topics": np.asarray(components, np.float32)[None, None]}},
        nChains=None,
        iterations=np.array([1]),
        settings={"sampler": "lda", "seed": 1},
    )
    return sgmcmc.models.Topics(draws, PRIOR_OF_DOCUMENTS).perplexity(held)


def timed(call: Callable) -> tuple[float, object]:
    """The processor time and the result of a call."""
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def compare(train: sparse.csr_array, held: sparse.csr_array, repetitions: int) -> dict[str, float]:
    """Medians over seeds, with both methods in turn."""
    found: dict[str, list[float]] = {"ours": [], "theirs": [], "ours_s": [], "theirs_s": []}
    arguments = {"docTopicPrior": PRIOR_OF_DOCUMENTS, "topicWordPrior": PRIOR_OF_WORDS, "verbose": False}
    first, _ = timed(lambda: sgmcmc.lda(train, TOPICS, seed=0, **arguments))
    for seed in range(1, repetitions + 1):
        model = LatentDirichletAllocation(
            TOPICS,
            doc_topic_prior=PRIOR_OF_DOCUMENTS,
            topic_word_prior=PRIOR_OF_WORDS,
            learning_method="online",
            max_iter=2,
            random_state=seed,
        )
        seconds, _ = timed(lambda model=model: model.fit(train))
        found["theirs_s"].append(seconds)
        found["theirs"].append(perplexity(model.components_ / model.components_.sum(axis=1, keepdims=True), held))
        seconds, topics = timed(lambda seed=seed: sgmcmc.lda(train, TOPICS, seed=seed, **arguments))
        found["ours_s"].append(seconds)
        found["ours"].append(topics.perplexity(held))
    return {name: float(np.median(values)) for name, values in found.items()} | {"first_s": first}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--corpora", default="paragraphs,functions,simulated,modules")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    every = corpora()
    print("| documents | number | words, mean | perplexity, scikit-learn | lda | seconds, both | first call of lda |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in options.corpora.split(","):
        train, held = every[name]
        found = compare(train, held, options.repetitions)
        print(
            f"| {name} | {train.shape[0]} | {train.sum() / train.shape[0]:.0f} | {found['theirs']:.0f} "
            f"| {found['ours']:.0f} | {found['theirs_s']:.1f}, {found['ours_s']:.1f} | {found['first_s']:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
