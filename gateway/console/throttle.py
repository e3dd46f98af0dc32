"""How often somebody may try: what is guessed by trying must be tried slowly. No I/O.

All of it is in memory, bounded, and forgotten with the process. A try is counted when it is let
in, not when it has failed: many at once would else all be let in.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, TypeVar

MAX_KNOWN: Final = 10_000
"""Names, or addresses. Beyond them the one that tried least lately is forgotten."""

FREE_FAILURES: Final = 5
MAX_DELAY_SECONDS: Final = 15 * 60
FORGET_SECONDS: Final = 24 * 3600
"""A name that nobody tried for so long starts anew: slower for a guesser than the longest delay."""

ADDRESS_TRIES: Final = 100
ADDRESS_SECONDS: Final = 15 * 60
NOTED_FAILURES: Final = 200
NOTED_SECONDS: Final = 3600

Clock = Callable[[], float]
Key = TypeVar("Key")
T = TypeVar("T")


class Tries:
    """At most `count` tries in any `seconds`, by whatever they are counted for."""

    def __init__(self, count: int, seconds: float, *, clock: Clock = time.monotonic) -> None:
        self._count = count
        self._seconds = seconds
        self._clock = clock
        self._times: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def wait_seconds(self, key: Hashable) -> int:
        """Whole seconds until there may be a try; 0 = now. Counts nothing."""
        times = self._times.get(key)
        if times is None or len(times) < self._count:
            return 0
        return math.ceil(max(times[0] + self._seconds - self._clock(), 0))

    def take(self, key: Hashable) -> int:
        """Count one try, or say how many seconds to wait for it (then it does not count)."""
        wait = self.wait_seconds(key)
        if wait == 0:
            times = self._times.setdefault(key, deque(maxlen=self._count))
            times.append(self._clock())
            _keep_latest(self._times, key)
        return wait

    def give_back(self, key: Hashable) -> None:
        """The last one taken is not to count."""
        times = self._times.get(key)
        if times is not None:
            times.pop()
            if not times:
                del self._times[key]


@dataclass(slots=True)
class _Failures:
    count: int
    last: float


class SignInThrottle:
    """Sign-ins with a password, by name (known or not: it is all the same) and by address.

    Whoever guesses at a name can keep its owner from signing in with a password; a sign-in link
    is not counted here and always works.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._names: OrderedDict[bytes, _Failures] = OrderedDict()
        self._addresses = Tries(ADDRESS_TRIES, ADDRESS_SECONDS, clock=clock)
        self._notes = Tries(NOTED_FAILURES, NOTED_SECONDS, clock=clock)

    def take(self, name: str, address: str) -> int:
        """Count one try, as failed until `succeed`, or say how many seconds to wait for it."""
        now, key, place = self._clock(), _key(name), _network_of(address)
        known = self._names.get(key)
        if known is not None and now - known.last >= FORGET_SECONDS:
            known = None
        wait = max(_find_wait(known, now), self._addresses.wait_seconds(place))
        if wait == 0:
            self._addresses.take(place)
            self._names[key] = _Failures(known.count + 1 if known else 1, now)
            _keep_latest(self._names, key)
        return wait

    def succeed(self, name: str, address: str) -> None:
        """The try was right: the name starts anew, and the address has not tried."""
        self.clear(name)
        self._addresses.give_back(_network_of(address))

    def clear(self, name: str) -> None:
        """Its owner came by another way."""
        self._names.pop(_key(name), None)

    def take_note(self) -> bool:
        """Whether this failure is to be written down: strangers must not fill the database."""
        return self._notes.take(None) == 0


def _keep_latest(known: OrderedDict[Key, T], key: Key) -> None:
    known.move_to_end(key)
    if len(known) > MAX_KNOWN:
        known.popitem(last=False)


def _find_wait(known: _Failures | None, now: float) -> int:
    if known is None or known.count < FREE_FAILURES:
        return 0
    doublings = min(known.count - FREE_FAILURES, MAX_DELAY_SECONDS.bit_length())
    return math.ceil(max(known.last + min(1 << doublings, MAX_DELAY_SECONDS) - now, 0))


def _key(name: str) -> bytes:
    """Of one size, and not what somebody typed: that may be a password."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def _network_of(address: str) -> str:
    """An IPv6 address as its /64: everybody has 2^64 of them."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(ip_network((int(parsed), 64), strict=False))
    return address
