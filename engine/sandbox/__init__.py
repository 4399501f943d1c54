"""Strangers' files and queries are read in child processes with limits on memory and time."""
