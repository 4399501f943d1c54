"""Every error that a caller may want to catch. Each message names the culprit, what was expected and what came."""

from collections.abc import Iterable

_SHOWN_CHARACTERS = 500
"""Of another's message: the system names a long path first and the reason after it."""


class RouteCalError(Exception):
    """Base of all errors that RouteCal raises on purpose."""


class InvalidInput(RouteCalError, ValueError):
    """An argument that cannot be worked with."""

    def __init__(self, argument: str, expected: str, got: str) -> None:
        self.argument = argument
        self.expected = expected
        self.got = got
        super().__init__(f"{argument}: expected {expected}, got {got}")


class UnknownName(InvalidInput):
    """A name (feature, method, run, test, ...) that is not among the valid ones."""

    def __init__(self, argument: str, name: str, valid: Iterable[str]) -> None:
        self.valid = tuple(valid)
        listed = ", ".join(self.valid) or "none available"
        super().__init__(argument, f"one of: {listed}", repr(name))


class MissingData(RouteCalError):
    """A run does not hold what a computation needs (logits, a routing profile, labels)."""

    def __init__(self, what: str, needed_for: str, remedy: str) -> None:
        super().__init__(f"this run has no {what}, which {needed_for} needs; {remedy}")


class CacheError(RouteCalError):
    """A cache file or shard that cannot be read or written."""


class NotACache(CacheError):
    """The file is missing, or is not a DuckDB database made by RouteCal."""


class SchemaMismatch(CacheError):
    """The cache was written under another schema version."""

    def __init__(self, path: str, found: str, supported: str) -> None:
        super().__init__(
            f"{path}: schema version {found}, but this release reads version {supported}; "
            "publish the shards again with this release"
        )


class CorruptShard(CacheError):
    """A shard whose bytes do not match its checksum, or whose contents contradict themselves."""


def first_line(error: BaseException) -> str:
    """What an error of somebody else's says, fit to stand inside a message of ours; its kind if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip()[:_SHOWN_CHARACTERS] if lines else type(error).__name__
