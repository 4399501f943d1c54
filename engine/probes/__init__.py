"""Probes of the calibration error: five regressors of |confidence - correct|, and what their differences mean."""

from engine.probes.auditing import audit
from engine.probes.result import CONTRASTS, PROBES, Contrast, Note, ProbeResult, Reference
from engine.probes.sweep import ProbeSweep, audit_sweep, probe_tables

__all__ = [
    "CONTRASTS",
    "PROBES",
    "Contrast",
    "Note",
    "ProbeResult",
    "ProbeSweep",
    "Reference",
    "audit",
    "audit_sweep",
    "probe_tables",
]
