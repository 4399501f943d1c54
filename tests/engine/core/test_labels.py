"""Numbers, names and lists in words."""

from __future__ import annotations

import pytest

from engine.core.labels import capital, counted, in_sentence, listed


@pytest.mark.parametrize(
    ("n", "noun", "text"),
    [(1, "run", "1 run"), (0, "run", "0 runs"), (1024, "run", "1,024 runs"), (1, "class", "1 class"),
     (10, "predicted class", "10 predicted classes")],
)  # fmt: skip
def test_counted(n: int, noun: str, text: str):
    assert counted(n, noun) == text


def test_listed():
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"], "or") == "a, b or c"


def test_labels_in_a_sentence():
    assert [in_sentence(label) for label in ("ECE", "AR-CondCal", "Worst-tertile ECE")] == [
        "ECE", "AR-CondCal", "worst-tertile ECE",
    ]  # fmt: skip
    assert capital("the paper's test") == "The paper's test"
    assert capital("") == ""
