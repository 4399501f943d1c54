"""One dashboard that is disturbed and one that is left in peace, for all tests of faults."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.faults.scene import LABS, Scene, prepare, write_caches, write_caches_with_logits
from tests.serving import serve
from tests.viewers import run_through

N_RUNS = 4
N_RUNS_OF_LABS = 1
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Jobs take threads from each other, and a sum over two threads differs from one over one in its last bit."""


def bound_by_permissions() -> tuple[str, ...]:
    """A command under which even root may not read or write what the mode of a file forbids; empty without one."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return ()
    without = "-dac_override,-dac_read_search"
    command = ("setpriv", f"--inh-caps={without}", f"--bounding-set={without}")
    return command if subprocess.run([*command, "true"], capture_output=True).returncode == 0 else ()


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("faults")
    write_caches(folder, N_RUNS)
    (folder / "live").mkdir()
    shutil.copyfile(folder / "peace" / "old.duckdb", folder / "live" / "cache.duckdb")
    with (
        serve(folder / "live" / "cache.duckdb", folder / "served.log", around=bound_by_permissions()) as served,
        serve(folder / "peace" / "old.duckdb", folder / "peace.log") as peace,
    ):
        yield run_through(prepare(Scene(folder, served, peace)))


@pytest.fixture
def labs(scene: Scene) -> Iterator[Scene]:
    """The pages with long work, on a dashboard of their own that has computed nothing yet."""
    write_caches_with_logits(scene.folder, "labs-", N_RUNS_OF_LABS)
    live = Scene(scene.folder, scene.served, scene.peace, "labs-", LABS)
    live.put("old")
    with (
        serve(live.cache, scene.folder / "labs.log", **ONE_THREAD) as live.served,
        serve(live.finished("old"), scene.folder / "labs-peace.log", **ONE_THREAD) as live.peace,
    ):
        yield run_through(prepare(live))
