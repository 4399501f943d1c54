"""The bin x tertile x correctness counts of a run, counted by DuckDB in memory that does not grow with the run.

The cuts need four exact order statistics of rho. A random sample of the rows brackets them; one pass over all rows then
counts by bin and correctness, keeping rho itself only inside the brackets (about one row in a hundred) and three
stand-ins outside. If a bracket misses its order statistic, which chance does about once in 10^8 runs, a sort that
may spill to disk finds it. Runs that fit in the sample need no bracket.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np

from engine.core import validation
from engine.core.binning import MATCHINGS, Matching, check_quantiles, cut_points, ranks_around
from engine.core.contingency import Contingency
from engine.core.errors import CacheError, InvalidInput
from engine.core.types import FloatArray, IntArray
from engine.store.connection import REPAIR

SAMPLE_ROWS = 1 << 18
_DEVIATIONS = 6.0
Bracket = tuple[float, float]
Brackets = tuple[Bracket, Bracket]
EVERYTHING: Brackets = ((-np.inf, np.inf), (-np.inf, np.inf))


@dataclass(frozen=True)
class Source:
    """A query for (sample_id, confidence, correct, rho) with its parameters, and how many rows it has."""

    select: str
    parameters: dict[str, object]
    n: int


def count(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    *,
    n_bins: int,
    matching: Matching,
    quantiles: tuple[float, float],
    sample_rows: int = SAMPLE_ROWS,
) -> Contingency:
    """What `engine.core.contingency.tabulate` would count, count for count and cut for cut."""
    validation.bins(n_bins)
    validation.choice("matching", matching, MATCHINGS)
    checked = check_quantiles(quantiles)
    if matching == "equal_mass" and source.n < n_bins:
        raise InvalidInput("n_bins", f"at most {source.n} equal-mass bins (one sample each)", f"{n_bins}")
    binned = _equal_width(source, n_bins) if matching == "equal_width" else _equal_mass(source, n_bins)
    brackets = EVERYTHING if source.n <= sample_rows else _sampled_brackets(connection, source, checked, sample_rows)
    tally = _tally(connection, source, binned, brackets)
    cuts = tally.cuts(brackets, checked)
    if cuts is None:
        brackets = _sorted_brackets(connection, source, checked)
        tally = _tally(connection, source, binned, brackets)
        cuts = tally.cuts(brackets, checked)
        assert cuts is not None, "brackets of exact order statistics hold them"
    return Contingency(tally.counts(cuts, n_bins), cuts, matching, quantiles)


@dataclass(frozen=True)
class _Tally:
    """Numbers of rows by bin, correctness and key, where the key is rho or the stand-in of its region."""

    bins: IntArray
    correct: IntArray
    keys: FloatArray
    rows: IntArray

    def cuts(self, brackets: Brackets, quantiles: tuple[float, float]) -> tuple[float, float] | None:
        """The two cuts, or None if the brackets do not hold the order statistics these need."""
        order = np.argsort(self.keys, kind="stable")
        n_up_to = np.cumsum(self.rows[order])
        n = int(n_up_to[-1])
        pairs = []
        for quantile, (low, high) in zip(quantiles, brackets, strict=True):
            places = np.searchsorted(n_up_to, ranks_around(n, quantile), side="right")
            below, above = self.keys[order[places]]
            if not (low <= below and above <= high):
                return None
            pairs.append((float(below), float(above)))
        cuts = cut_points(tuple(pairs), n, quantiles)
        # Rounding of the interpolation may pass the upper order statistic; the stand-in above must stay above.
        return cuts if all(cut <= high for cut, (_, high) in zip(cuts, brackets, strict=True)) else None

    def counts(self, cuts: tuple[float, float], n_bins: int) -> IntArray:
        tertile = (self.keys > cuts[0]).astype(np.int64) + (self.keys > cuts[1])
        cells = (self.bins * 3 + tertile) * 2 + self.correct
        # Weights are floats in numpy; below 2^53 rows they count exactly.
        counts = np.bincount(cells, weights=self.rows, minlength=n_bins * 6).astype(np.int64)
        return counts.reshape(n_bins, 3, 2)


def _equal_width(source: Source, n_bins: int) -> str:
    """The edge b / n_bins itself is compared, as in `equal_width_bins`; the product is a first guess."""
    guess = f"SELECT *, least(floor(confidence * {n_bins}::DOUBLE), {n_bins - 1})::INTEGER AS guess"
    return f"""
        SELECT rho, correct, guess
            - (confidence < guess / {n_bins}::DOUBLE)::INTEGER
            + (guess < {n_bins - 1} AND confidence >= (guess + 1) / {n_bins}::DOUBLE)::INTEGER AS bin
        FROM ({guess} FROM ({source.select}))"""


def _equal_mass(source: Source, n_bins: int) -> str:
    """Rows in stable order of confidence; the first n mod n_bins bins hold one row more."""
    size, n_larger = divmod(source.n, n_bins)
    boundary = n_larger * (size + 1)
    position = f"SELECT *, row_number() OVER (ORDER BY confidence, sample_id) - 1 AS position FROM ({source.select})"
    return f"""
        SELECT rho, correct, CASE WHEN position < {boundary} THEN position // {size + 1}
            ELSE {n_larger} + (position - {boundary}) // {size} END AS bin
        FROM ({position})"""


def _tally(connection: duckdb.DuckDBPyConnection, source: Source, binned: str, brackets: Brackets) -> _Tally:
    if brackets == EVERYTHING:
        key, bounds = "rho", {}
    else:
        (low_1, high_1), (low_2, high_2) = brackets
        key = """CASE WHEN rho BETWEEN $low_1 AND $high_1 OR rho BETWEEN $low_2 AND $high_2 THEN rho
            WHEN rho < $low_1 THEN '-inf'::DOUBLE WHEN rho < $low_2 THEN $between ELSE 'inf'::DOUBLE END"""
        bounds = {"low_1": low_1, "high_1": high_1, "low_2": low_2, "high_2": high_2}
        bounds["between"] = float(np.nextafter(high_1, np.inf))
    table = connection.execute(
        f"""SELECT bin::BIGINT AS bin, correct::BIGINT AS correct, key, count(*)::BIGINT AS n_rows
            FROM (SELECT bin, correct, {key} AS key FROM ({binned})) GROUP BY ALL""",
        source.parameters | bounds,
    ).fetchnumpy()
    rows = np.asarray(table["n_rows"])
    if rows.sum() != source.n:
        raise CacheError(f"the cache lacks rows: {source.n} expected, {rows.sum()} found; {REPAIR}")
    return _Tally(np.asarray(table["bin"]), np.asarray(table["correct"]), np.asarray(table["key"]), rows)


def _sampled_brackets(
    connection: duckdb.DuckDBPyConnection, source: Source, quantiles: tuple[float, float], sample_rows: int
) -> Brackets:
    """Order statistics of a random sample, six standard deviations of a sample quantile's rank to either side."""
    stride = -(-source.n // sample_rows)
    rho = np.asarray(
        connection.execute(
            f"SELECT rho FROM ({source.select}) WHERE hash(sample_id) % {stride} = 0", source.parameters
        ).fetchnumpy()["rho"]
    )
    rho.sort()
    m = rho.size

    def bracket(quantile: float) -> Bracket:
        margin = _DEVIATIONS * np.sqrt(m * quantile * (1 - quantile)) + _DEVIATIONS
        low, high = int(np.floor(m * quantile - margin)), int(np.ceil(m * quantile + margin))
        return (float(rho[low]) if low >= 0 else -np.inf, float(rho[high]) if high < m else np.inf)

    return bracket(quantiles[0]), bracket(quantiles[1])


def _sorted_brackets(connection: duckdb.DuckDBPyConnection, source: Source, quantiles: tuple[float, float]) -> Brackets:
    def bracket(quantile: float) -> Bracket:
        below, above = ranks_around(source.n, quantile)
        values = [
            value
            for (value,) in connection.execute(
                f"SELECT rho FROM ({source.select}) ORDER BY rho LIMIT {above - below + 1} OFFSET {below}",
                source.parameters,
            ).fetchall()
        ]
        # One step of room, for an interpolation that rounds past its upper end.
        return float(values[0]), float(np.nextafter(values[-1], np.inf))

    return bracket(quantiles[0]), bracket(quantiles[1])
