"""How much of a stranger's file is read before it is refused."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.errors import InvalidInput


@dataclass(frozen=True)
class Limits:
    """Checked against what a file claims before memory is taken, and again while it is read."""

    max_bytes: int = 2 << 30
    max_rows: int = 10_000_000
    max_columns: int = 20_000

    def check_bytes(self, what: str, n_bytes: int) -> None:
        if n_bytes > self.max_bytes:
            raise InvalidInput(what, f"at most {_readable(self.max_bytes)}", _readable(n_bytes))

    def check_rows(self, what: str, n_rows: int) -> None:
        if n_rows > self.max_rows:
            raise InvalidInput(what, f"at most {self.max_rows:,} rows", f"{n_rows:,}")

    def check_columns(self, what: str, n_columns: int) -> None:
        if n_columns > self.max_columns:
            raise InvalidInput(what, f"at most {self.max_columns:,} columns", f"{n_columns:,}")


def _readable(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"
