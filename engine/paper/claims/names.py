"""Row and table names that several groups of claims use."""

from __future__ import annotations

RAW = "No calibration"
TS = "Temp. Scaling (TS)"
AR_CONDCAL = "AR-CondCal"
KERNEL_FAMILY = ("Conf-only", "Conf + PredEntropy", AR_CONDCAL)
BINNING = ("Histogram Binning", "BBQ")

CELLS = {
    "calibration": "Swin-Tiny / C-10 / Block-AR",
    "calibration_swin_c10_full": "Swin-Tiny / C-10 / Full-AR",
    "calibration_deit_c10_block": "DeiT-Small / C-10 / Block-AR",
    "calibration_deit_c10_full": "DeiT-Small / C-10 / Full-AR",
    "calibration_swin_c100_block": "Swin-Tiny / C-100 / Block-AR",
    "calibration_deit_c100_block": "DeiT-Small / C-100 / Block-AR",
    "calibration_deit_c100_full": "DeiT-Small / C-100 / Full-AR",
    "calibration_swin_c100_full": "Swin-Tiny / C-100 / Full-AR",
}
"""The eight three-seed calibration tables and the row of the same cell in the raw summary."""

CALIBRATION_COLUMNS = ("ECE", "AdaECE", "NLL", "Brier", "Worst-tertile ECE")
SEEDS = (0, 1, 2)
SEED_ROWS = {
    "Block-AR": tuple(f"Block-AR (b=2) / seed {seed}" for seed in SEEDS),
    "Full-AR": tuple(f"Full-AR / seed {seed}" for seed in SEEDS),
}
