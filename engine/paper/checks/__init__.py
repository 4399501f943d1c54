"""One function per conclusion: evidence to finding, one module per part of the paper."""
