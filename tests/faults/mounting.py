"""File systems that only one process sees, gone when it ends."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def in_private_mounts(script: str) -> tuple[str, ...]:
    """A command that runs the shell script where nobody else sees what it mounts, then what it is handed.

    Skips the test where that is not allowed.
    """
    enter = ("unshare", "--mount") if os.getuid() == 0 else ("unshare", "--mount", "--map-root-user")
    trial = [*enter, "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True).returncode:
        pytest.skip("no file systems may be mounted here")
    return (*enter, "sh", "-c", f'{script} && exec "$@"', "sh")


def in_mounts_of(process: int) -> tuple[str, ...]:
    """A command that runs what it is handed where the file systems of such a process are seen."""
    users = () if os.getuid() == 0 else ("--user", "--preserve-credentials")
    return ("nsenter", *users, "--mount", f"--target={process}")
