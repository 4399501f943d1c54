"""Which device a run is computed on, and how the runs of a sweep are spread over several."""

import itertools

import torch

from engine.core.errors import InvalidInput, first_line


def pick_device(name: str = "auto", option: str = "--device") -> torch.device:
    """A device of this machine by its torch name; `auto` takes CUDA where it is there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InvalidInput(option, "auto, cpu, cuda or cuda:1", f"{name!r} ({first_line(error)})") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InvalidInput(option, f"one of this machine's {torch.cuda.device_count()} CUDA devices", repr(name))
    return device


def parse_gpus(text: str) -> list[int]:
    """`0,2,3` as numbers of CUDA devices of this machine, each once."""
    parts = text.split(",")
    numbers = [int(part) for part in parts if part.strip().isdecimal()]
    if len(numbers) != len(parts) or len(set(numbers)) != len(numbers):
        raise InvalidInput("--gpus", "numbers of CUDA devices, each once, such as 0,2,3", repr(text))
    for number in numbers:
        pick_device(f"cuda:{number}", "--gpus")
    return numbers


def spread(device: str, workers: int, gpus: list[int] | None = None) -> list[str]:
    """The device of each worker: the GPUs in turn (all of the machine's for `auto` and `cuda`), or the one named."""
    if gpus is None and device in ("auto", "cuda"):
        gpus = list(range(torch.cuda.device_count()))
    if not gpus:
        return [device] * workers
    return [f"cuda:{number}" for number in itertools.islice(itertools.cycle(gpus), workers)]
