"""Benchmarks beside the peer that does the same work, in one run: ratios, not seconds."""
