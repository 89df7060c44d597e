"""How much of the package a reader opens to follow a call."""

import subprocess
import sys
from pathlib import Path

ROUTE = Path(__file__).with_name("route.py")
LIMITS = {"sgld": (48, 409), "sgldcv": (66, 558), "session": (33, 204), "step": (9, 27)}  # files, named functions


def test_calls_pass_few_files_and_functions():
    run = subprocess.run([sys.executable, ROUTE], capture_output=True, text=True, check=True, cwd=ROUTE.parents[2])
    found = {name: (int(files), int(functions)) for name, files, functions in map(str.split, run.stdout.splitlines())}
    assert found.keys() == LIMITS.keys()
    assert {name: n for name, n in found.items() if n[0] > LIMITS[name][0] or n[1] > LIMITS[name][1]} == {}
