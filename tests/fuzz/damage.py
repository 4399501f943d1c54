"""Bytes as a failing disk, a broken download or an ill-meaning sender leaves them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy


def damaged(content: bytes) -> SearchStrategy[bytes]:
    """The content cut short, with bytes changed, moved, repeated, inserted or left out."""
    return _damaged(content)


@st.composite
def _damaged(draw: DrawFn, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        if not changed:
            break
        # Headers and footers sit at the ends, so half of all damage is done there.
        place = draw(st.integers(0, len(changed) - 1) | st.integers(0, min(64, len(changed)) - 1))
        if draw(st.booleans()):
            place = len(changed) - 1 - place
        manner = draw(st.sampled_from(["cut", "flip", "flip", "set", "insert", "drop", "repeat", "large number"]))
        length = draw(st.integers(1, 16))
        if manner == "cut":
            del changed[place:]
        elif manner == "flip":
            changed[place] ^= 1 << draw(st.integers(0, 7))
        elif manner == "set":
            changed[place] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        elif manner == "insert":
            changed[place:place] = draw(st.binary(min_size=1, max_size=16))
        elif manner == "drop":
            del changed[place : place + length]
        elif manner == "repeat":
            changed[place:place] = changed[place : place + length]
        else:
            changed[place : place + 8] = draw(
                st.sampled_from([b"\xff" * 8, b"\x00" * 7 + b"\x7f", b"\xff\xff\xff\x7f" * 2])
            )
    return bytes(changed)
