"""How much a stranger may ask for, by a shard, a cache, an upload, a query or a page: every limit has its name here.

What goes beyond one is refused with an error that names it. Work on foreign bytes is done in limited processes
(`engine.sandbox.run`) as well, for a file may claim less than it takes.
"""

from __future__ import annotations

# Of one run, wherever it comes from.
MOST_CLASSES = 32_768
"""ImageNet-21k has 21,841."""
MOST_LAYERS = 1_024
MOST_SAMPLES = 10_000_000
MOST_COLUMNS = 256
"""Further columns beside confidence, logits and profile."""
MOST_TEXT = 4 << 20
"""Bytes of one text in a cache or shard: a name, a configuration, a stored answer."""

# Of one cache.
MOST_RUNS = 10_000
VALUES_PER_BYTE, SPARE_VALUES = 8, 20_000_000
"""Numbers that a run may unpack to, by the size of its file and beyond it: kilobytes of zeros are not gigabytes."""

# Of what viewers send to a dashboard.
UPLOAD_BYTES = 100_000_000
SESSION_BYTES = 200_000_000
ALL_BYTES = 1_000_000_000
"""Of a file, of the files that one viewer keeps, and of those of all viewers."""
UPLOAD_ROWS, UPLOAD_COLUMNS = 2_000_000, 5_000
UPLOAD_SECONDS = 300.0
"""For a file to come in."""

# Of what viewers make a dashboard do. Whoever has fewest at work comes next.
JOBS_PER_VIEWER, JOBS = 4, 128
"""Long computations asked for and not done."""
QUERIES_PER_VIEWER, QUERIES = 1, 16
"""Questions in SQL and files being read, likewise; `CHILDREN` of them are at work, the others wait."""
CHILDREN = 2
QUERY_SECONDS, MOST_QUERY_SECONDS = 1.0, 10.0
"""That a question in SQL gets, and that it may be given."""
QUERY_CHARACTERS, ANSWER_ROWS, ANSWER_BYTES = 20_000, 10_000, 8 << 20
