"""BLAS is kept to one thread from the first use of the engine's matrix products on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from threadpoolctl import threadpool_info
{use}
print(sorted({{library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}}))
"""
REGRESSION = "from engine.kernel import nw_regress; nw_regress(np.arange(9.0), np.ones(9), np.arange(3.0), 1.0)"
SAMPLES = "np.arange(90) / 90, np.arange(90) % 3 > 0, np.ones(90)"
VERDICT = f"from engine.verdict import judge; judge({SAMPLES}, controls=False)"
CALIBRATION = "from engine.calibrators import CALIBRATORS; CALIBRATORS['ts']().fit(np.eye(3), [0, 1, 1])"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one thread anyway")
@pytest.mark.parametrize(
    ("use", "expected"),
    [("import scipy.linalg", "[2]"), (REGRESSION, "[1]"), (CALIBRATION, "[1]"), (VERDICT, "[1]")],
)
def test_limit_is_set_on_first_use(use, expected):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", SCRIPT.format(use=use)]
    child = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert child.stdout.strip() == expected
