#!/usr/bin/env bash
# Make the virtual environments of the packages that speed.py compares with, in benchmarks/environments/.
# If SGMCMC_BENCH_ENVIRONMENTS names a folder that has them already, there is nothing to do: speed.py uses it, too.
# PYTHON names the interpreter to build them with (jax 0.4.28 needs Python 3.9 to 3.12).
set -euo pipefail

python=${PYTHON:-python3}
folder=${SGMCMC_BENCH_ENVIRONMENTS:-"$(cd "$(dirname "$0")" && pwd)/environments"}

make_environment() { # name, then requirements
    local environment="$folder/$1"
    shift
    if [[ -x $environment/bin/python ]]; then
        echo "using $environment"
        return
    fi
    echo "making $environment"
    "$python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --upgrade pip
    if ! "$environment/bin/python" -m pip install --quiet "$@"; then
        rm -r "$environment"
        return 1
    fi
}

mkdir -p "$folder"
make_environment sgmcmcjax jax==0.4.28 jaxlib==0.4.28 sgmcmcjax==0.2.13 "numpy<2" "scipy<1.13"
make_environment blackjax blackjax jax
make_environment numpyro numpyro "arviz-stats[xarray]"
