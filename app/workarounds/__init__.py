"""Faults of libraries that the dashboard steps around; each module says which and until when."""
