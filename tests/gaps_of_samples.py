"""The gap and its bootstrap, which the engine has of counts, of the samples that tests have."""

from __future__ import annotations

import inspect
from typing import Any

from engine.gaps import BootstrapResult, GapResult, bootstrap_gap_of_counts, gap_of_counts, tabulate

_CUT = tuple(inspect.signature(tabulate).parameters)


def _counted(function: Any, samples: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    cut = {name: value for name, value in settings.items() if name in _CUT}
    return function(tabulate(*samples, **cut), **{name: settings[name] for name in settings if name not in cut})


def matched_gap(*samples: Any, **settings: Any) -> GapResult:
    return _counted(gap_of_counts, samples, settings)


def bootstrap_gap(*samples: Any, **settings: Any) -> BootstrapResult:
    return _counted(bootstrap_gap_of_counts, samples, settings)
