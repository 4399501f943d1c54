"""What the terms of the pages' sentences mean, shown when pointed at."""

import html
import re

GLOSSARY = {
    "routing entropy": "How evenly a layer mixes earlier layers: 1 for an even mix of all, 0 for one only",
    "similar confidence": "Samples are compared inside narrow bins of their largest softmax probability",
    "third": "The samples with the lowest, middle or highest third of the feature",
    "95 % interval": "In 95 % of repeated samples such an interval holds the true value",
    "trend": "Does accuracy rise or fall with the feature inside bins of confidence? (the primary test)",
    "shape": "Does accuracy depend on the feature in any other way than rising or falling?",
    "combined": "One p-value from trend and shape together (Cauchy combination)",
    "detect": "Reject at 5 % in four of five such data sets",
    "Holm": "Corrects p-values for the number of tests, so that one false rejection among all is rare",
    "I²": "Share of the spread between cells that chance does not explain",
    "ECE": "Expected calibration error: mean distance of accuracy from confidence over bins",
    "debiased": "Without what sampling noise alone adds to the ECE",
    "NLL": "Negative log-likelihood of the true class",
    "AR-CondCal": "The paper's calibrator: smooths correctness over confidence and a routing feature",
    "permutations": "The feature is shuffled among samples of the same confidence bin, so that any link is chance",
    "seeds": "Runs that differ only in their random initialisation and order of training",
    "cells": "All runs of one model on one data set, which differ by seed",
    "R²": "Share of the variance of the error that the probe explains on samples it has not seen",
    "rank correlation": "Spearman's: 1 if two quantities have the same order, 0 if they are unrelated",
}
_TERM = re.compile(r"(?<!\w)(" + "|".join(map(re.escape, sorted(GLOSSARY, key=len, reverse=True))) + r")(?!\w)")
_STYLE = "text-decoration:underline dotted;text-underline-offset:0.2em;cursor:help"


def explained(text: str) -> str:
    """The text as HTML, each term dotted where it first stands."""
    met: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        term = found[1]
        if term in met:
            return term
        met.add(term)
        return f'<abbr title="{html.escape(GLOSSARY[term])}" style="{_STYLE}">{term}</abbr>'

    return _TERM.sub(mark, html.escape(text))
