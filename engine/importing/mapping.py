"""Which column is what. Names decide, never values: logits and probabilities are not told apart by looking at them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import groupby

from engine.core.errors import InvalidInput, UnknownName
from engine.features import FEATURES
from engine.importing.readers import Columns

_LABEL = ("label", "labels", "ground_truth", "groundtruth", "gt", "target", "targets", "true_label", "y_true", "y")
_PREDICTION = ("pred", "preds", "prediction", "predictions", "predicted", "pred_label", "y_pred", "y_hat")
_CONFIDENCE = ("conf", "confs", "confidence", "confidences", "max_prob", "max_probability", "msp", "p_max")
_CORRECT = ("correct", "correctness", "is_correct", "hit", "hits")
_CLUSTER = ("cluster", "clusters", "cluster_id")
_LOGITS = ("logits", "logit")
_PROBABILITIES = ("probs", "prob", "probabilities", "probability", "softmax", "p")
_PROFILE = ("entropies", "profile", "routing_profile", "routing", "h")
_NUMBERED = re.compile(r"(?P<stem>.*?)[_.\- ]?(?P<number>\d+)")
_IDENTIFIERS = frozenset({"id", "idx", "index", "sample", "sample_id", "image_id", "row", "unnamed: 0", "column_1"})
_MOST_EXTRA = 12


@dataclass(frozen=True)
class ColumnMapping:
    """Column names by role. A matrix is one two-dimensional column or several plain ones in order."""

    logits: tuple[str, ...] = ()
    probabilities: tuple[str, ...] = ()
    label: str | None = None
    confidence: str | None = None
    correct: str | None = None
    prediction: str | None = None
    profile: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    cluster: str | None = None


def guess_mapping(columns: Columns) -> ColumnMapping:
    """The first complete description of outcomes that common names offer, and a profile and clusters if there are any.

    Logits with labels come first, then probabilities with labels, then confidence with correctness or with predictions
    and labels. What is missing stays empty, and `build_record` says so. Extra columns are never guessed.
    """
    label, cluster = _single(columns, _LABEL), _single(columns, _CLUSTER)
    confidence, correct = _single(columns, _CONFIDENCE), _single(columns, _CORRECT)
    logits, probabilities = _matrix(columns, _LOGITS), _matrix(columns, _PROBABILITIES)
    profile = _matrix(columns, _PROFILE, at_least=1)
    if logits and (label or not confidence):
        return ColumnMapping(logits=logits, label=label, profile=profile, cluster=cluster)
    if probabilities and (label or not confidence):
        return ColumnMapping(probabilities=probabilities, label=label, profile=profile, cluster=cluster)
    return ColumnMapping(
        label=label,
        confidence=confidence,
        correct=correct,
        prediction=_single(columns, _PREDICTION),
        profile=profile,
        cluster=cluster,
    )


def choose_columns(columns: Columns, patterns: Iterable[str], argument: str) -> tuple[str, ...]:
    """Names that match any of the patterns (`*`, `?`), each once; numbered names in the order of their numbers."""
    chosen: list[str] = []
    for pattern in patterns:
        matched = [pattern] if pattern in columns else [name for name in columns if fnmatchcase(name, pattern)]
        if not matched:
            raise UnknownName(argument, pattern, columns)
        chosen += [name for name in _by_number(matched) if name not in chosen]
    return tuple(chosen)


def check_consecutive(names: Sequence[str], argument: str) -> None:
    """Class columns that carry numbers must not skip one: a missing class would shift all later ones."""
    numbers = [column_number(name) for name in names]
    if len(names) > 1 and all(number is not None for number in numbers):
        first = numbers[0]
        assert first is not None
        expected = list(range(first, first + len(names)))
        if numbers != expected:
            raise InvalidInput(argument, "columns of consecutive class numbers", ", ".join(names[:8]))


def _single(columns: Columns, names: Sequence[str]) -> str | None:
    by_lower = {name.lower(): name for name in columns if columns[name].ndim == 1 or columns[name].shape[1] == 1}
    return next((by_lower[name] for name in names if name in by_lower), None)


def _matrix(columns: Columns, stems: Sequence[str], at_least: int = 2) -> tuple[str, ...]:
    """One two-dimensional column of such a name, or consecutively numbered plain columns such as H_1, H_2, ..."""
    for name, values in columns.items():
        if name.lower() in stems and values.ndim == 2:
            return (name,)
    for stem in stems:
        numbered = _by_number([name for name in columns if columns[name].ndim == 1 and column_stem(name) == stem])
        numbers = [column_number(name) for name in numbered]
        if len(numbers) >= at_least and numbers[0] in (0, 1):
            first = numbers[0]
            assert first is not None
            if numbers == list(range(first, first + len(numbers))):
                return tuple(numbered)
    return ()


def column_stem(name: str) -> str | None:
    """`h` of `H_3`; None for a name without a trailing number."""
    parts = _NUMBERED.fullmatch(name)
    return parts["stem"].lower() if parts else None


def column_number(name: str) -> int | None:
    """3 of `H_3`."""
    parts = _NUMBERED.fullmatch(name)
    return int(parts["number"]) if parts else None


def _by_number(names: list[str]) -> list[str]:
    """In the order of trailing numbers if all names have one, else as they came."""
    numbers = {name: column_number(name) for name in names}
    if any(number is None for number in numbers.values()):
        return names
    return sorted(names, key=lambda name: numbers[name] or 0)


def column_groups(columns: Columns) -> dict[str, tuple[str, ...]]:
    """Choices by the text to show: runs of consecutively numbered columns first, then every column by itself."""
    numbered = [(column_stem(name), column_number(name), name) for name, v in columns.items() if v.ndim == 1]
    families = sorted(
        (stem, number, name) for stem, number, name in numbered if stem is not None and number is not None
    )
    groups: dict[str, tuple[str, ...]] = {}
    for _, members in groupby(enumerate(families), key=lambda entry: (entry[1][0], entry[1][1] - entry[0])):
        names = tuple(name for _, (_, _, name) in members)
        if len(names) > 1:
            groups[f"{names[0]} to {names[-1]} ({len(names)} columns)"] = names
    for name, values in columns.items():
        groups[f"{name} ({values.shape[1]} values each)" if values.ndim == 2 else name] = (name,)
    return groups


def with_extra(columns: Columns, mapping: ColumnMapping) -> ColumnMapping:
    """The mapping with the plain columns that are left over as further columns, a dozen at most, numbering aside."""
    used = {*mapping.logits, *mapping.probabilities, *mapping.profile}
    used |= {value for value in vars(mapping).values() if isinstance(value, str)}
    left = [
        name
        for name, values in columns.items()
        if values.ndim == 1 and name not in used and name.lower() not in _IDENTIFIERS and name not in FEATURES
    ]
    # Numbered leftovers are somebody's matrix under a name of their own, not a dozen scores.
    members = {name for names in column_groups(columns).values() if len(names) > 1 for name in names}
    return replace(mapping, extra=tuple(name for name in left if name not in members)[:_MOST_EXTRA])
