"""How much memory this process holds and held at most, in megabytes."""

from __future__ import annotations

import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def _field(name: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def held_mb() -> float:
    """Resident memory now; where the system does not say, the most so far."""
    return _field("VmRSS") if _STATUS.exists() else peak_mb()


def peak_mb() -> float:
    """Most resident memory so far; `ru_maxrss` would start from the parent's, which a child inherits on Linux."""
    if _STATUS.exists():
        return _field("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS


def forget_peak() -> None:
    """Start the peak anew from what is held now; only Linux can, elsewhere the peak includes the preparation."""
    if _CLEAR.exists():
        _CLEAR.write_text("5")
