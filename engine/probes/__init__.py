"""Probes of the calibration error: five regressors of |confidence - correct|, and what their differences mean."""

from engine.probes.auditing import MINIMUM_SAMPLES, Descriptor, audit, descriptor
from engine.probes.result import CONTRASTS, PROBES, Contrast, Note, ProbeResult, Reference, predicted_against_actual
from engine.probes.sweep import ProbeSweep, RunSummary, audit_run, audit_sweep, pool
