"""The worker that runs SGLD of posteriors on a network with one hidden layer."""

from __future__ import annotations

import numpy as np
import torch
from posteriors.sgmcmc import sgld
from posteriors.types import TensorTree
from protocol import seconds, serve, versions


def forward(params: TensorTree, x: torch.Tensor) -> torch.Tensor:
    hidden = torch.relu(x @ params["dense.kernel"] + params["dense.bias"])
    return hidden @ params["dense_1.kernel"] + params["dense_1.bias"]


def chain(problem: str, result: str, stepsize: float, minibatchSize: int, nIters: int, thin: int, seed: int) -> float:
    """Seconds for a chain; every `thin`-th draw's probabilities of the test set are averaged and saved in `result`.

    Minibatches are indexed by hand, which is faster than a DataLoader.
    """
    torch.manual_seed(seed)
    given = np.load(problem)
    X, y, test = torch.tensor(given["X"]), torch.tensor(given["y"], dtype=torch.int64), torch.tensor(given["test"])
    start = {name[6:]: torch.tensor(given[name]) for name in given.files if name.startswith("start.")}
    N, total = len(y), torch.zeros(())

    def log_posterior(params: TensorTree, batch: tuple) -> tuple[torch.Tensor, torch.Tensor]:
        mean = -torch.nn.functional.cross_entropy(forward(params, batch[0]), batch[1])
        prior = -0.5 * sum((theta**2).sum() for theta in params.values())
        return mean + prior / N, torch.tensor([])

    # Of the log posterior over N at the temperature 1/N, a step of the length lr has the variance 2 lr/N.
    transform = sgld.build(log_posterior, lr=stepsize * N / 2, temperature=1 / N)

    def run() -> None:
        nonlocal total
        state = transform.init(start)
        for t in range(1, nIters + 1):
            rows = torch.randint(N, (minibatchSize,))
            state, _ = transform.update(state, (X[rows], y[rows]))
            if t % thin == 0:
                with torch.no_grad():
                    total = total + torch.softmax(forward(state.params, test), dim=1)

    taken = seconds(run)
    np.save(result, (total / (nIters // thin)).numpy())
    return taken


if __name__ == "__main__":
    serve({"versions": lambda: versions("posteriors", "torch"), "chain": chain})
