"""The pages of the dashboard, in the order of the navigation. Tests walk over this list."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """A script under `pages/`, the name it has in the navigation and its address."""

    script: str
    title: str
    url: str


PAGES: tuple[Page, ...] = (Page("pages/home.py", "Runs", "runs"),)
