"""The sidebar that every page shares. All of it lives in the URL, so that a link reproduces a view."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import pandas as pd
import streamlit as st

from app.shell.presenter import picker
from app.shell.wording import plain
from app.state.selection import OUTCOMES, POPULATIONS, Protocol, Selection, Slice, feature_label
from engine.core.binning import TERTILE_QUANTILES, TERTILES
from engine.core.labels import RunName
from engine.features import FEATURES

NO_RUN = ""  # no run has this id
_LOST = "routecal-lost"
"""Of the session: what its first address asked for that is not there; a list as long as it is being looked for."""
_SLICE_KEYS = {"label": "class"}
"""Parts of a slice that the address calls otherwise."""
_THIRD = 0.33
_NARROWING = {"backbone": ("Backbone", "backbone"), "dataset": ("Data set", "data"), "variant": ("Variant", "variant")}
"""Parts of a run's name: the box of each, and how the address calls it."""
FEATURE_HELP = "\n".join([
    "What is compared at equal confidence. H_l is the routing entropy of layer l of L, c the confidence and p_k the "
    "probability of class k of K.\n",
    *(f"- {feature.label}: `{feature.formula}`" for feature in FEATURES.values()),
])  # fmt: skip

_BY_OUTCOME = (
    "For Reliability and Mechanism. It uses the outcome, so pages that test ask for the predicted class instead."
)


def _choose(
    label: str, options: Sequence[str], key: str, show: Callable[[str], str] = str, help: str | None = None
) -> str:
    """A select box bound to the URL; its first option is the default."""
    asked, lost = st.query_params.get(key), st.session_state.get(_LOST)
    if isinstance(lost, list) and asked is not None and asked not in map(show, options):
        lost.append(f"This cache has no {label.lower()} “{asked}”, so the default is shown.")
    return str(st.selectbox(label, list(options), format_func=show, key=key, bind="query-params", help=help))


def _choose_run(names: Mapping[str, RunName]) -> str:
    """Backbone, then data set, variant and seed among what is there."""
    left = list(names)
    for part, (box, key) in _NARROWING.items():
        named = {run_id: getattr(names[run_id], part) for run_id in left}
        chosen = _choose(box, list(dict.fromkeys(named.values())), key)
        left = [run_id for run_id, name in named.items() if name == chosen]
    return _choose("Run", left, "run", lambda run_id: names[run_id].run)


def _choose_slice(row: pd.Series) -> Slice:
    tertile = _choose("Tertile of the feature", ("all", *TERTILES), "tertile")
    band = st.slider("Confidence band", 0.0, 1.0, (0.0, 1.0), 0.01, key="band", bind="query-params")
    classes = [] if pd.isna(row["n_classes"]) else [str(k) for k in range(int(row["n_classes"]))]
    unknown = None if classes else "The classes of this run are not known."
    predicted = _choose("Predicted class", ("all", *classes), "predicted", help=unknown)
    label = _choose("True class", ("all", *classes), "class", help=unknown or _BY_OUTCOME)
    outcome = _choose("Prediction", tuple(OUTCOMES), "outcome", lambda name: OUTCOMES[name], help=_BY_OUTCOME)
    return Slice(tertile, (float(band[0]), float(band[1])), predicted, label, outcome)


def set_slice(chosen: Slice) -> None:
    """Turn the boxes to a slice; to be called before they are drawn, as the callback of a button."""
    for name, value in asdict(chosen).items():
        key = _SLICE_KEYS.get(name, name)
        if st.session_state.get(key, getattr(Slice(), name)) != value:
            st.session_state[key] = value


def departures(selection: Selection) -> dict[str, tuple[str, object]]:
    """What was chosen other than by default: by its key in the address, the words for it and the default."""
    chosen, protocol, default = selection.slice, selection.protocol, Protocol()
    found: dict[str, tuple[str, object]] = {
        _SLICE_KEYS.get(name, name): (Slice(**{name: value}).describe(), getattr(Slice(), name))
        for name, value in asdict(chosen).items()
        if value != getattr(Slice(), name)
    }
    if protocol.n_bins != default.n_bins:
        found["bins"] = f"{protocol.n_bins} bins", default.n_bins
    if protocol.min_support != default.min_support:
        found["support"] = f"at least {protocol.min_support} samples in each outer third", default.min_support
    if protocol.quantiles != default.quantiles:
        found["outer"] = f"cuts at {protocol.quantiles[0]:.2f} and {protocol.quantiles[1]:.2f}", _THIRD
    if protocol.population != default.population:
        found["population"] = POPULATIONS[protocol.population], default.population
    return found


def show_chips(selection: Selection, heeds: tuple[str, ...] | None) -> None:
    """A chip with a cross for each departure that the page heeds (None: all of them), and one for all."""
    found = {key: each for key, each in departures(selection).items() if heeds is None or key in heeds}
    with st.container(horizontal=True, gap="xsmall", key="chips"):
        for key, (words, default) in found.items():
            st.button(
                words, key=f"chip-{key}", icon=":material/close:", help="Back to the default",
                on_click=st.session_state.update, args=[{key: default}],
            )  # fmt: skip
        if found:
            defaults = {key: default for key, (_, default) in found.items()}
            st.button("Reset", key="chip-reset", type="tertiary", on_click=st.session_state.update, args=[defaults])


def begin_to_look() -> None:
    """Before the boxes are drawn: from now on they say what the address asks for and they do not offer."""
    st.session_state.setdefault(_LOST, [])


def end_looking(fingerprint: str) -> None:
    """After the first drawing; `of` in an address is the fingerprint of the cache that it was made of."""
    lost, of = st.session_state[_LOST], st.query_params.get("of", fingerprint)
    if isinstance(lost, list):
        changed = f"The cache has changed since this link was made: it was {of}, now it is {fingerprint}."
        st.session_state[_LOST] = (*lost, *([changed] if of != fingerprint else []))


def say_what_a_link_lost() -> None:
    """A bar that can be closed."""
    with st.container(key="lost"):
        if st.session_state[_LOST]:
            st.warning("  \n".join(map(plain, st.session_state[_LOST])), icon=":material/link_off:")
            st.button("Close", key="lost-close", on_click=st.session_state.update, args=[{_LOST: ()}])


def _choose_protocol() -> Protocol:
    n_bins = st.slider("Confidence bins", 2, 50, 15, key="bins", bind="query-params", help="The paper uses 15.")
    support = st.slider(
        "Minimum samples in each outer third of a bin",
        1,
        50,
        5,
        key="support",
        bind="query-params",
        help="The paper uses 5.",
    )
    cut = st.slider(
        "Share of samples in each outer third", 0.05, 0.5, _THIRD, 0.01, key="outer", bind="query-params",
        help="0.33 means tertiles, as in the paper.",
    )  # fmt: skip
    population = _choose(
        "Population", tuple(POPULATIONS), "population", lambda name: POPULATIONS[name],
        help="Diagnostic: all samples, nothing fitted. Benchmark: the half that calibrators are evaluated on.",
    )  # fmt: skip
    quantiles = TERTILE_QUANTILES if cut == _THIRD else (float(cut), 1 - float(cut))
    return Protocol(int(n_bins), int(support), quantiles, population)


def choose_cache(names: Sequence[str]) -> str:
    """Which cache, where there is more than one; the first is the default."""
    if len(names) == 1:
        return names[0]
    with picker():
        return _choose("Cache", names, "cache")


def choose(runs: pd.DataFrame, names: Mapping[str, RunName], fingerprint: str) -> Selection:
    """Draw the sidebar and return what is chosen; `names` are those of the runs, the default first."""
    with picker():
        run_id = _choose_run(names)
        row = runs.loc[run_id]
        others = [NO_RUN, *(other for other in runs["run_id"] if other != run_id)]
        compare = _choose(
            "Compare with", others, "with", lambda other: names[other].full if other else "none",
            help="Reliability and Mechanism show this run beside the chosen one.",
        )  # fmt: skip
        features = [*FEATURES, *row["extra_names"]]
        feature = _choose("Feature", features, "feature", feature_label, help=FEATURE_HELP)
        with st.expander("Slice"):
            chosen_slice = _choose_slice(row)
        with st.expander("Protocol"):
            protocol = _choose_protocol()
    return Selection(fingerprint, run_id, compare or None, feature, chosen_slice, protocol)
