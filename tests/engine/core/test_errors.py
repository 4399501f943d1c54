"""What others' errors say inside ours."""

from __future__ import annotations

import pytest

from engine.core.errors import first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError("No space left on device"), "No space left on device"),
        (ValueError("\n  bad magic \nsecond line"), "bad magic"),
        (ValueError("windows\r\nlines"), "windows"),
        (ValueError("x" * 1000), "x" * 500),
        (OSError(28, "No space left on device", "/f" * 100), f"[Errno 28] No space left on device: '{'/f' * 100}'"),
        (EOFError(), "EOFError"),
        (MemoryError(" \n\t"), "MemoryError"),
    ],
)
def test_the_first_line_of_an_error(error: BaseException, line: str):
    assert first_line(error) == line
