"""The small language in which most claims are written; the head of `data/paper/words/claims.toml` tells what it has.

A number is an interval (`engine.paper.claims.rounding`); a formula gives a list of them, of one where it is a number.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from string import Template
from typing import Any

from engine.paper.claims.compare import marks, mean_and_std, reachable, within_band
from engine.paper.claims.registry import CHECKS, Address, Finding, Paper, all_of, decide
from engine.paper.claims.rounding import Rounded, decimals, exactly, total
from engine.paper.published import CELLS, STATEMENTS

Numbers = list[Rounded]
_ADDRESS = re.compile(r"<([±#?]?)([^<>|]+)\|([^<>|]+)(?:\|([^<>|]+))?>")
_NAME_IN_TEXT = re.compile(r"\{(lowest|highest|order) (<[^<>]+>)\}")
_NUMBER_IN_TEXT = re.compile(r"\{([^{}]+?)(?::([,+.\dfg]+))?\}")
_OPERATORS: Mapping[type[ast.operator], Callable[[Rounded, Rounded], Rounded]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[[Numbers], Numbers]] = {
    "min": lambda found: [min(found, key=lambda number: number.value)],
    "max": lambda found: [max(found, key=lambda number: number.value)],
    "sum": lambda found: [total(found)],
    "abs": lambda found: [abs(number) for number in found],
    "exact": lambda found: [exactly(number.value) for number in found],
    "sqrt": lambda found: [exactly(math.sqrt(number.value)) for number in found],
}
_BETWEEN_NUMBERS: Mapping[str, Callable[[Rounded, Rounded], bool]] = {
    "=": Rounded.may_equal, "<=": Rounded.may_be_at_most, "within": Rounded.fits_within, "==": operator.eq,
}  # fmt: skip
_BESIDE_A_BAND: Mapping[str, Callable[[Rounded, Rounded, Rounded], bool]] = {
    "is a seed of": lambda value, centre, spread: reachable(value, centre, spread, 3),
    "is in the band of": within_band,
}
_RELATION = re.compile(rf"(.+?) ({'|'.join([*_BETWEEN_NUMBERS, *_BESIDE_A_BAND, 'repeats'])}) (.+)")
_ALIASES = {"cells": ";".join(CELLS), "further": ";".join(list(CELLS)[1:])}


def addresses(paper: Paper, text: str) -> list[Address]:
    """The cells of an address, in printed order where it has a star."""

    def names(pattern: str, known: Callable[..., list[str]], *of: str) -> list[str]:
        given = pattern.split(";")
        return [name for name in known(*of) if fnmatchcase(name, pattern)] if "*" in pattern else given

    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no address")
    _, tables, rows, columns = found.groups(default="value")
    return [
        (table, row, column)
        for table in tables.replace("said", STATEMENTS).split(";")
        for row in names(rows, paper.rows, table)
        for column in names(columns, paper.columns, table, row)
    ]


def evaluate(paper: Paper, formula: str) -> Numbers:
    """The numbers that a formula gives; operations on lists go pair by pair, or one against all."""
    read: Mapping[str, Callable[..., Rounded]] = {
        "": paper.value,
        "±": paper.std,
        "#": lambda *cell: exactly(paper.count(*cell)),
        "?": lambda *cell: exactly(paper.has(*cell)),
    }
    tree, asked = _parsed(formula)
    given = {name: [read[kind](*cell) for cell in addresses(paper, text)] for name, (kind, text) in asked.items()}

    def numbers(node: ast.expr) -> Numbers:
        match node:
            case ast.Constant(value=int() | float() as value):
                return [exactly(value)]
            case ast.Name(id=name):
                return given[name]
            case ast.BinOp(left=left, op=op, right=right):
                return [_OPERATORS[type(op)](*pair) for pair in _pairs(numbers(left), numbers(right))]
            case ast.Call(func=ast.Name(id="rows"), args=[ast.Name(id=table)]):
                return [exactly(len(paper.rows(table)))]
            case ast.Call(func=ast.Name(id=name), args=[argument]):
                return _FUNCTIONS[name](numbers(argument))
        raise ValueError(f"{formula!r} is no formula")

    return numbers(tree)


@lru_cache(maxsize=4096)
def _parsed(formula: str) -> tuple[ast.expr, Mapping[str, tuple[str, str]]]:
    """A formula with names in place of its addresses, and what they stand for: what is asked, and the address."""
    asked: dict[str, tuple[str, str]] = {}

    def named(found: re.Match[str]) -> str:
        asked[f"cells{len(asked)}"] = (found[1], found[0])
        return f"cells{len(asked) - 1}"

    return ast.parse(_ADDRESS.sub(named, formula), mode="eval").body, asked


def _pairs(left: Numbers, right: Numbers) -> list[tuple[Rounded, Rounded]]:
    n = max(len(left), len(right))
    return list(zip(left * n if len(left) == 1 else left, right * n if len(right) == 1 else right, strict=True))


def holds(paper: Paper, relation: str) -> bool:
    """Whether a relation may hold, for every pair where there are several numbers."""
    found = _RELATION.fullmatch(relation)
    if found is None:
        raise ValueError(f"{relation!r} is no relation")
    left, name, right = found.groups()
    if name in _BETWEEN_NUMBERS:
        return all(_BETWEEN_NUMBERS[name](*pair) for pair in _pairs(evaluate(paper, left), evaluate(paper, right)))
    [there] = addresses(paper, right)
    if name == "repeats":
        return all(paper.agree(here, there) for here in addresses(paper, left))
    return all(_BESIDE_A_BAND[name](value, *paper.band(*there)) for value in evaluate(paper, left))


def render(paper: Paper, text: str) -> str:
    """A text with its numbers."""

    def number(found: re.Match[str]) -> str:
        formula, style = found.groups()
        if style:
            return ", ".join(format(value.value, style) for value in evaluate(paper, formula))
        return ", ".join(paper.printed(*cell) for cell in addresses(paper, formula))

    def cells(found: re.Match[str]) -> str:
        return ", ".join(paper.shown(*cell) for cell in addresses(paper, found[0]))

    def names(found: re.Match[str]) -> str:
        ranked = sorted(named(paper, found[2]).items(), key=lambda item: item[1].value)
        return {"lowest": ranked[0][0], "highest": ranked[-1][0]}.get(found[1]) or " < ".join(
            name for name, _ in ranked
        )

    return _ADDRESS.sub(cells, _NUMBER_IN_TEXT.sub(number, _NAME_IN_TEXT.sub(names, text)))


def named(paper: Paper, address: str) -> dict[str, Rounded]:
    """The numbers of an address, by what stands in the place of its star, or by column where it has none."""
    place = 1 if "*" in address.split("|")[1] else 2
    before, _, after = address.strip("<>").split("|")[place].partition("*")
    cells = addresses(paper, address)
    names = [cell[place].removeprefix(before).removesuffix(after) if "*" in address else cell[place] for cell in cells]
    return {name: paper.value(*cell) for name, cell in zip(names, cells, strict=True)}


def _choices(paper: Paper, given: str | Sequence[Any]) -> list[Sequence[str]]:
    """What `each` goes through: what is listed, or what an address has a star for."""
    if not isinstance(given, str):
        return [[item] if isinstance(item, str) else item for item in given]
    if not given.startswith("<"):
        return [[name] for name in given.split(";")]
    place = 1 if "*" in given.split("|")[1] else 2
    return [[cell[place]] for cell in addresses(paper, given)]


def _parts(paper: Paper, claim: Mapping[str, Any], names: Mapping[str, str]) -> list[tuple[str, bool]]:
    """The relations of a claim, by name, for every combination of what `each` goes through."""
    worlds = [dict(names)]
    for name, choices in claim.get("each", {}).items():
        worlds = [
            world | dict(zip(name.split(), values, strict=True))
            for world in worlds
            for values in _choices(paper, Template(choices).substitute(world) if isinstance(choices, str) else choices)
            if values[0] not in claim.get("skip", ())
        ]
    parts = []
    for world in worlds:
        for name, relations in claim["parts"].items():
            listed = [relations] if isinstance(relations, str) else relations
            fits = all(holds(paper, Template(relation).substitute(world)) for relation in listed)
            parts.append((render(paper, Template(name).substitute(world)), fits))
    return parts


def examine(paper: Paper, key: str, claim: Mapping[str, Any]) -> Finding:
    """What the tables say about a claim."""
    names = _ALIASES | claim.get("let", {})

    def shown(name: str) -> str:
        return render(paper, Template(claim[name]).substitute(names))

    match claim:
        case {"same": [said, formula]}:
            digits = decimals(render(paper, f"{{{said}}}")) + 1
            fits = holds(paper, f"{said} = {formula}")
            found = decide(fits, render(paper, f"{{{said}}}"), render(paper, f"{{{formula}:.{digits}f}}"))
        case {"cells": [here, there]}:
            found = decide(holds(paper, f"{here} repeats {there}"), render(paper, here), render(paper, there))
        case {"equal": texts}:
            said, there = (render(paper, Template(text).substitute(names)) for text in texts)
            found = decide(said == there, said, there)
        case {"changes": texts}:
            given = {name: render(paper, text) for name, text in texts.items()}
            listed = "; ".join(f"{name}: {text}" for name, text in given.items())
            found = decide(len(set(given.values())) > 1, shown("stated"), listed)
        case {"aggregate": [cell, seeds]}:
            found = mean_and_std(paper, *addresses(paper, cell)[0], evaluate(paper, seeds))
        case {"marks": table}:
            found = marks(paper, **table)
        case {"holds": relations}:
            fits = all(holds(paper, Template(relation).substitute(names)) for relation in relations)
            found = decide(fits, shown("stated"), shown("found"))
        case {"parts": _}:
            parts = _parts(paper, claim, names)
            names["n"] = str(len(parts))
            found = all_of(parts, shown("stated"))
        case {"check": check}:
            [(name, arguments)] = check.items()
            found = CHECKS[name](paper, *arguments)
        case {"stated": _}:
            found = Finding(shown("stated"), "", "not checkable")
        case _:
            found = CHECKS[key](paper)
    return replace(found, how=found.how or render(paper, claim.get("how", "")))
