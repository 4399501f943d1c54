"""A tap as the command line writes it: `softmax:axis=0,rank=3`."""

import importlib
from dataclasses import fields
from typing import Any

from cache_builder.taps import TAPS, Tap
from engine.core.errors import InvalidInput, UnknownName


def imported(option: str, name: str) -> Any:
    """What `module:name` names; the module is imported, and so its code runs."""
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidInput(option, "module:name, such as mymodule:build", repr(name))
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(option, "something that can be imported from here", f"{name!r} ({error})") from error


def parse_tap(text: str, option: str = "--tap") -> Tap:
    """A tap by its name in `TAPS` and its settings; a function is given as `read=module:name`."""
    name, _, written = text.partition(":")
    if name not in TAPS:
        raise UnknownName(option, name, [*TAPS, "survey"])
    known = [field.name for field in fields(TAPS[name])]  # type: ignore[arg-type]
    settings: dict[str, Any] = {}
    for entry in written.split(",") if written else ():
        key, equals, value = entry.partition("=")
        if not equals or key not in known:
            raise UnknownName(f"{option} {name}", key, known)
        settings[key] = int(value) if value.lstrip("-").isdecimal() else value
        if key == "read":
            settings[key] = imported("read", value)
    try:
        return TAPS[name](**settings)
    except TypeError as error:
        raise InvalidInput(option, f"{name} with {', '.join(known)}", f"{text!r} ({error})") from error
