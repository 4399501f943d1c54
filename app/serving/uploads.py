"""How many bytes of files are let in: in one upload, of one viewer, of all (`engine.core.limits`).

What counts is what Streamlit keeps in memory until a session ends, and what is on its way.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from streamlit import runtime

from engine.core.errors import InvalidInput
from engine.core.limits import ALL_BYTES, SESSION_BYTES, UPLOAD_BYTES

_ENVELOPE = 10_000
"""Bytes that a request may have around the file."""


class Uploads:
    """`kept` says how many bytes are kept for every session."""

    def __init__(self, kept: Callable[[], Mapping[str, int]]) -> None:
        self._kept = kept
        self._coming: Counter[str] = Counter()

    @contextmanager
    def admit(self, session: str, n_bytes: int) -> Iterator[None]:
        """Keep room for a file while it comes; raises `InvalidInput` where there is none. On one thread only."""
        kept = self._kept()
        for what, there, most in (
            ("file", 0, UPLOAD_BYTES + _ENVELOPE),
            ("files of one viewer", kept.get(session, 0) + self._coming[session], SESSION_BYTES + _ENVELOPE),
            ("files of all viewers", sum(kept.values()) + self._coming.total(), ALL_BYTES),
        ):
            if there + n_bytes > most:
                raise InvalidInput(what, f"at most {most // 1_000_000:,} MB", f"{(there + n_bytes) / 1e6:,.1f} MB")
        self._coming[session] += n_bytes
        try:
            yield
        finally:
            self._coming[session] -= n_bytes
            self._coming += Counter()  # without those that are at zero


def kept_by_streamlit() -> dict[str, int]:
    """Bytes of uploaded files by session."""
    storage = runtime.get_instance().uploaded_file_mgr.file_storage if runtime.exists() else {}
    return {session: sum(len(file.data) for file in list(files.values())) for session, files in list(storage.items())}


def drop_departed() -> None:
    """Streamlit keeps the files of a lost session until somebody else leaves, a minute later; nobody needs them."""
    if runtime.exists():
        server = runtime.get_instance()
        for session in list(server.uploaded_file_mgr.file_storage):
            if not server.is_active_session(session):
                server.uploaded_file_mgr.remove_session_files(session)
