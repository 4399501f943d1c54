"""The published tables as a cache fills them, one module per part of the paper."""
