"""Where a run came from: code, packages, device and data, but no host, user or path."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PACKAGES = ("torch", "torchvision", "timm", "numpy", "pillow", "pyarrow", "scikit-learn")


@cache
def code_version() -> str:
    """The commit of this checkout, with a mark when cache_builder was changed after it; "unknown" outside git.

    Kept from the first call on: a long sweep runs the code it started with, whatever is committed meanwhile.
    """
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        finished = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
        return finished.stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return commit + ("+changes" if git("status", "--porcelain", "--untracked-files=no", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def device_name(device: torch.device) -> str:
    """The make of the processor: results are repeatable to the last digits only on the same one."""
    import torch  # takes seconds, which `import` and its like do not need

    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    if device.type != "cpu":
        return device.type
    description = Path("/proc/cpuinfo")
    lines = description.read_text().splitlines() if description.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"cpu: {names[0] if names else platform.machine()} ({torch.backends.cpu.get_cpu_capability()})"


def describe(source: str, device: torch.device, seconds: float, fingerprint: str) -> dict[str, Any]:
    """The provenance of a run: `seconds` is the time spent on it, `fingerprint` identifies the data's pixels."""
    import torch

    return {
        "source": source,
        "commit": code_version(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 1),
        "data_fingerprint": fingerprint,
    }
