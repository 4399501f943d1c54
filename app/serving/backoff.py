"""Guesses of a password, slowed down: those of one address, and those of all addresses together.

After `free` wrong guesses the next one waits a second, then two, four, ... up to `most`. The bound of all together is
low, for whoever guesses from many addresses must not be able to keep everybody else out.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address


@dataclass(frozen=True)
class Pace:
    """How many wrong guesses cost nothing, and the longest wait in seconds."""

    free: int
    most: float


EACH, ALL = Pace(4, 900.0), Pace(40, 2.0)
FORGOTTEN = 900.0
"""Seconds without a wrong guess after which the earlier ones do not count any more."""
_EVERYBODY = ""
_ADDRESSES = 10_000
"""That are remembered; the one that guessed longest ago is forgotten first."""


class BackOff:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the next one may come

    @property
    def size(self) -> int:
        return len(self._wrong)

    def wait(self, address: str) -> float:
        """Seconds until a guess from there is looked at; 0 for now."""
        return max(self._left(house(address)), self._left(_EVERYBODY))

    def failed(self, address: str) -> None:
        """A guess was wrong."""
        now = self._clock()
        for key, pace in ((house(address), EACH), (_EVERYBODY, ALL)):
            count, due = self._wrong.pop(key, (0, now))
            count = 1 if now - due > FORGOTTEN else count + 1
            beyond = count - pace.free
            self._wrong[key] = count, now + (min(2.0 ** min(beyond - 1, 60), pace.most) if beyond > 0 else 0.0)
        while len(self._wrong) > _ADDRESSES + 1:
            self._wrong.popitem(last=False)

    def entered(self, address: str) -> None:
        """A guess was right."""
        self._wrong.pop(house(address), None)

    def _left(self, key: str) -> float:
        _, due = self._wrong.get(key, (0, 0.0))
        return max(due - self._clock(), 0.0)


def house(address: str) -> str:
    """An IPv6 customer has 2^64 addresses."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    return str(known) if not isinstance(known, IPv6Address) else f"{int(known) >> 64:x}"
