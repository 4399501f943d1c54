"""Tables of probes."""

from __future__ import annotations

import pandas as pd

from engine.paper.sources import Evidence, with_cells
from engine.paper.tables.frames import Cells, by_run, tidy
from engine.probes import ProbeSweep
from engine.probes.sweep import INPUTS

_NO_PROBE = "no run of this cache has a routing profile to probe"


def probe_sanity(evidence: Evidence) -> pd.DataFrame:
    sweep: ProbeSweep = evidence["probes"]
    pooled = sweep.pooled.set_index("probe").to_dict("index")

    def cells() -> Cells:
        for probe, given in INPUTS.items():
            if probe in pooled:
                found = pooled[probe]
                yield probe.replace("_", "-"), "Input", given, None, found["n_runs"]
                yield probe.replace("_", "-"), "R²", found["mean"], found["std"], found["n_runs"]

    return tidy(cells(), _NO_PROBE)


def naive_probe(evidence: Evidence) -> pd.DataFrame:
    sweep: ProbeSweep = evidence["probes"]
    wide = sweep.probes[sweep.probes["n_layers"] > 0].pivot_table(index="run_id", columns="probe", values="r2_mean")
    columns = {"Conf-only (linear) R²": "conf_lin", "Full (linear) R²": "full_lin", "Full (MLP) R²": "full_mlp"}
    rows = with_cells(wide.reset_index(), evidence) if len(wide) else pd.DataFrame()
    return by_run(rows, "run", columns, _NO_PROBE)


def vanilla(evidence: Evidence) -> pd.DataFrame:
    rows = with_cells(evidence["hidden_states"], evidence).merge(
        evidence["gaps"][["run_id", "accuracy", "raw_ece"]], on="run_id"
    )
    rows = rows.assign(uplift=rows["full_mlp"] - rows["conf_lin"])
    columns = {"Acc@1": "accuracy", "ECE": "raw_ece", "Conf-only R²": "conf_lin", "MLP R²": "full_mlp"}
    reason = "no run of this cache is a plain backbone with the norms of its blocks as extra columns"
    return by_run(rows, "run", columns | {"Uplift": "uplift"}, reason)
