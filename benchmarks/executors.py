"""Chains in the workers of executors: equality of the draws, the effect of a killed worker, and the gain in speed.

python benchmarks/executors.py --engines spawn,loky,dask,ray,executorlib --cases equality,kills,speed

Engines other than spawn need their package: loky, distributed, ray or executorlib. For mpi4py, start two workers and a
process that waits: mpiexec -n 3 python -m mpi4py.futures benchmarks/executors.py --engines mpi --cases equality
"""

from __future__ import annotations

import argparse
import functools
import inspect
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import psutil
import tensorflow as tf

import sgmcmc
from sgmcmc import Draws, controlVariates, preferential, runningMean, saga, svrg
from sgmcmc.core.trees import with_paths

WORKERS = 2
RNG = np.random.default_rng(0)
DATA = {"x": RNG.normal(3.0, 1.0, size=400), "z": RNG.normal(size=(400, 3))}
PARAMS = {"theta": 0.5, "beta": np.zeros(3)}
RUN = {"minibatchSize": 40, "nIters": 30, "seed": 1, "verbose": False}


class RayExecutor:
    """Ray as an executor: the wrapper of the guide."""

    def __init__(self) -> None:
        import ray

        self._remote = ray.remote(num_cpus=1)(lambda function, *arguments: function(*arguments))

    def submit(self, function: Callable, *arguments: Any) -> Future:
        return self._remote.remote(function, *arguments).future()


@contextmanager
def spawn() -> Iterator[Any]:
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        yield pool


@contextmanager
def loky() -> Iterator[Any]:
    from loky import ProcessPoolExecutor

    with ProcessPoolExecutor(WORKERS) as pool:
        yield pool


@contextmanager
def dask() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor()


@contextmanager
def ray() -> Iterator[Any]:
    import ray

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    yield RayExecutor()
    ray.shutdown()


@contextmanager
def executorlib() -> Iterator[Any]:
    from executorlib import SingleNodeExecutor

    with SingleNodeExecutor(max_workers=WORKERS) as executor:
        yield executor


@contextmanager
def mpi() -> Iterator[Any]:
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        yield executor


ENGINES = {"spawn": spawn, "loky": loky, "dask": dask, "ray": ray, "executorlib": executorlib, "mpi": mpi}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * (dataset["x"] - params["theta"] - tf.linalg.matvec(dataset["z"], params["beta"])) ** 2


def moving(params: dict, dataset: dict, seed: tf.Tensor) -> dict:
    return {"theta": 3.0 + 0.05 * tf.random.stateless_normal([], seed)}


def counts_of(params: dict, dataset: dict) -> dict:
    return {"p": tf.reduce_sum(dataset["x"], axis=0)}


DOCS = RNG.poisson(1.0, size=(40, 8))
COUNTS = {"dataset": {"x": DOCS[:, :3].astype(float)}, "params": {"p": np.full(3, 1 / 3)}, "alpha": 1.0}


def regression(sampler: str, stepsize: Any, **given: Any) -> Callable[..., Draws]:
    return functools.partial(getattr(sgmcmc, sampler), log_lik, DATA, PARAMS, stepsize, **RUN | given)


def topics(**given: Any) -> Draws:
    return sgmcmc.lda(DOCS, 2, minibatchSize=10, nIters=20, seed=1, verbose=False, **given).draws


def mixture(**given: Any) -> Draws:
    out = sgmcmc.dpMixture(DOCS, minibatchSize=10, nIters=20, seed=1, verbose=False, **given)
    return Draws(
        {"posterior": {"weights": out.weights, "theta": out.theta, "alpha": out.alpha}},
        nChains=len(out.alpha),
        iterations=range(out.alpha.shape[1]),
        settings={"sampler": "dpMixture", "seed": 1, "nIters": 20},
    )


SAMPLERS: dict[str, Callable[..., Draws]] = {
    "sgld": regression("sgld", 1e-4),
    'sgldcv, "auto"': regression("sgldcv", "auto", nIters=200),
    "sghmccv": regression("sghmccv", 1e-5, optStepsize=1e-4),
    "saga": regression("sgld", 1e-4, gradient=saga()),
    "svrg": regression("sgld", 1e-4, gradient=svrg(every=10)),
    "preferential": regression(
        "sgld", 1e-4, gradient=controlVariates(optStepsize=1e-4), subsampling=preferential(), tolerance=0.05
    ),
    "gibbs": regression("sgld", 1e-4, gibbs=moving),
    "transforms": regression("sgld", 1e-4, transforms={"theta": "positive"}),
    "reduce, gradients": regression("sgld", 1e-4, reduce=runningMean(), gradients=True),
    "scir": functools.partial(sgmcmc.scir, counts_of, **COUNTS, stepsize=0.1, **RUN),
    "lda": topics,
    "dpMixture": mixture,
}


def difference(one: Draws, other: Draws) -> float:
    """The largest difference of a draw, statistic or sum, relative to the largest of its array; 0 is the same bits."""
    arrays = [dict(with_paths({"groups": x.groups, "reduced": x.reduced})) for x in (one, other)]
    assert arrays[0].keys() == arrays[1].keys()
    pairs = [(np.asarray(x, float), np.asarray(arrays[1][keys], float)) for keys, x in arrays[0].items()]
    return max(float(np.nanmax(np.abs(x - y)) / max(np.nanmax(np.abs(y)), 1e-30)) if x.size else 0.0 for x, y in pairs)


def shown(value: float) -> str:
    return "same bits" if value == 0 else f"{value:.0e}"


def table(rows: list[list[str]]) -> str:
    head, *rest = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rest))


def tasks(run: Callable[..., Draws], size: int) -> Draws:
    """Chains 0 to 4 as run by the tasks of an array job, joined."""
    return Draws.concat([run(nChains=range(k, min(k + size, 5))) for k in range(0, 5, size)])


def equality(engines: list[str]) -> str:
    """Each sampler runs five chains. A task is a call with a range of chains; an engine has jobs of 3 chains.

    The table shows the largest relative differences. dpMixture, whose tasks are not joined, is compared to one program.
    """
    here = {name: run(nChains=5) for name, run in SAMPLERS.items()}
    apart = {name: run for name, run in SAMPLERS.items() if name != "dpMixture"}
    by_three = here | {name: tasks(run, 3) for name, run in apart.items()}
    rows = [["", *SAMPLERS]]
    for size in (1, 2, 3):
        of_size = by_three if size == 3 else here | {name: tasks(run, size) for name, run in apart.items()}
        rows.append([f"tasks of {size}, against one program", *differences(of_size, here)])
    for engine in engines:
        with ENGINES[engine]() as executor:
            outs = {name: run(nChains=5, executor=executor, chainsPerJob=3) for name, run in SAMPLERS.items()}
        rows.append([f"{engine}, against tasks of 3", *differences(outs, by_three)])
    return table(rows)


def differences(outs: dict[str, Draws], others: dict[str, Draws]) -> list[str]:
    return ["" if outs[name] is others[name] else shown(difference(outs[name], others[name])) for name in SAMPLERS]


class Fatal:
    """Observations that kill the first other process that reads them while a file exists."""

    def __init__(self, armed: Path) -> None:
        self._armed, self._parent = armed, os.getpid()

    def __len__(self) -> int:
        return 400

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        if os.getpid() != self._parent and self._armed.exists():
            self._armed.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return {name: array[indices] for name, array in DATA.items()}


def kills(engines: list[str]) -> str:
    """A worker is killed by SIGKILL during its job. The table shows what the call returns, and what resuming gives."""
    rows = [["engine", "draws", "the call returns", "and with resume=True here"]]
    for engine in engines:
        for stored in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                armed = Path(folder) / "armed"
                armed.touch()
                run = functools.partial(sgmcmc.sgld, log_lik, Fatal(armed), PARAMS, 1e-4, **RUN | {"nIters": 300})
                storage = {"storage": Path(folder) / "run.zarr", "resume": True} if stored else {}
                then = ""
                exact = Draws.concat([run(nChains=chains) for chains in (range(0, 2), range(2, 4))])
                try:
                    with ENGINES[engine]() as executor:
                        out = run(nChains=4, executor=executor, chainsPerJob=2, **storage)
                    came = f"all draws, {shown(difference(out, exact))}: the engine repeated the job"
                except Exception as error:
                    came = f"{type(error).__name__}; `partial` has {len(error.partial)} of 2 jobs"
                    if stored:
                        then = shown(difference(run(nChains=4, **storage), exact))
                rows.append([engine, "in a store" if stored else "in memory", came, then])
    return table(rows)


def logistic(n_data: int) -> tuple[Callable, dict, dict]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n_data, 54)).astype(np.float32)
    y = (rng.uniform(size=n_data) < 1 / (1 + np.exp(-x @ rng.normal(0, 0.3, 54)))).astype(np.float32)

    def of_rows(params: dict, dataset: dict) -> tf.Tensor:
        logits = tf.linalg.matvec(dataset["x"], params["beta"])
        return tf.reduce_sum(dataset["y"] * logits - tf.math.softplus(logits))

    return of_rows, {"x": x, "y": y}, {"beta": np.zeros(54, np.float32)}


def network(n_data: int) -> tuple[Callable, dict, dict]:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(n_data, 784)).astype(np.float32), rng.integers(0, 10, n_data)
    shapes = {"a": (100,), "A": (784, 100), "b": (10,), "B": (100, 10)}

    def of_rows(params: dict, dataset: dict) -> tf.Tensor:
        hidden = tf.nn.relu(dataset["x"] @ params["A"] + params["a"])
        scores = tf.nn.log_softmax(hidden @ params["B"] + params["b"])
        return tf.gather(scores, dataset["y"], batch_dims=1)

    return (
        of_rows,
        {"x": x, "y": y},
        {name: rng.normal(0, 0.05, shape).astype(np.float32) for name, shape in shapes.items()},
    )


def by_gradients(made: Callable, n: int, stepsize: float, **given: Any) -> Callable[[], Callable[..., Any]]:
    def run() -> Callable[..., Any]:
        model = made()
        common = {"minibatchSize": n, "seed": 1, "verbose": False, "nChains": CHAINS, "reduce": runningMean()}
        return functools.partial(sgmcmc.sgld, *model, stepsize, **common | given)

    return run


def many_topics() -> Callable[..., Any]:
    docs = np.random.default_rng(1).poisson(0.05, size=(2000, 1000))
    return functools.partial(sgmcmc.lda, docs, 10, minibatchSize=50, seed=1, verbose=False, nChains=CHAINS, thin=10)


CHAINS = 16
PROBLEMS = {  # the run, and the numbers of iterations of a short and a long one
    "logistic, N = 10^6, n = 50": (by_gradients(functools.partial(logistic, 10**6), 50, 1e-7), 4000, 24_000),
    "logistic, N = 10^6, n = 1000": (by_gradients(functools.partial(logistic, 10**6), 1000, 1e-7), 200, 2200),
    "network 784-100-10, n = 500": (
        by_gradients(functools.partial(network, 55_000), 500, 1e-6, integers=["y"]),
        20,
        120,
    ),
    "lda, 10 topics, 1000 words, 50 documents": (many_topics, 20, 80),
}


def seconds_of_processors() -> float:
    """Processor time of this process and its children so far."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def speed(engines: list[str]) -> str:
    """16 chains run in one process, which may use all processors, or in the workers of an engine.

    The table shows the seconds of a first, short run, then the milliseconds per iteration, of wall and processor time.
    """
    rows = [["problem", "where", "first run, s", "iteration, ms", "processor time, ms", "gain"]]
    for title, (made, short, long) in PROBLEMS.items():
        run, alone = made(), None
        for engine in ("one process", *engines):
            with ENGINES[engine]() if engine in ENGINES else nothing() as executor:
                first, _ = timed(run, short, executor)
                runs = [(timed(run, short, executor), timed(run, long, executor)) for _ in range(3)]
            wall, busy = (np.median([b[k] - a[k] for a, b in runs]) / (long - short) for k in (0, 1))
            alone = alone or wall
            rows.append(
                [title, engine, f"{first:.1f}", f"{1e3 * wall:.2f}", f"{1e3 * busy:.2f}", f"{alone / wall:.2f}"]
            )
    return table(rows)


def timed(run: Callable[..., Any], n_iterations: int, executor: Any) -> tuple[float, float]:
    before, started = seconds_of_processors(), time.perf_counter()
    run(nIters=n_iterations, executor=executor)
    return time.perf_counter() - started, seconds_of_processors() - before


@contextmanager
def nothing() -> Iterator[None]:
    yield None


CASES = {"equality": equality, "kills": kills, "speed": speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="spawn", help=f"some of {', '.join(ENGINES)}")
    parser.add_argument("--cases", default=",".join(CASES), help=f"some of {', '.join(CASES)}")
    parser.add_argument("--output", help="where to write the tables; by default to the terminal")
    arguments = parser.parse_args()
    texts = ["# Chains in the workers of executors"]
    for case in arguments.cases.split(","):
        function = CASES[case]
        described = inspect.cleandoc(function.__doc__ or "")
        texts.append(f"## {case.capitalize()}\n\n{described}\n\n{function(arguments.engines.split(','))}")
        print(texts[-1], flush=True)
    if arguments.output:
        Path(arguments.output).write_text("\n\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
