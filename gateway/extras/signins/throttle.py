"""Throttle what could be guessed by trying: passwords and codes. No I/O.

All counts are in memory, bounded, and lost when the process ends. A try is counted before it is
made, not after it has failed; otherwise many concurrent tries would all be admitted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import os
import time
import unicodedata
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, TypeVar

MAX_KNOWN: Final = 10_000
"""Names and devices, or addresses, that are remembered. Above this the least recently used one is evicted."""

FREE_FAILURES: Final = 5
"""Wrong passwords for a name before the next try has to wait: people mistype."""
MAX_DELAY_SECONDS: Final = 15 * 60
"""The longest wait. Each failure doubles it; a guesser gets some hundred tries a day."""
FORGET_SECONDS: Final = 24 * 3600
"""Failures of a name are forgotten after this pause. It is longer than MAX_DELAY_SECONDS, so that
waiting for it does not make guessing faster."""

ADDRESS_TRIES: Final = 100
"""Tries from one address, for all names: an office behind one address signs in with fewer."""
ADDRESS_SECONDS: Final = 15 * 60
"""Seconds in which they are counted: an office that used them up waits a quarter of an hour at most."""
NOTED_SECONDS: Final = 3600
"""Seconds in which failures to be noted are counted: their limits are per hour."""
NOTED_KIND: Final = 200
"""Noted failures of a kind, from everywhere: strangers must not fill the database."""
NOTED_ADDRESS: Final = 50
"""How many of the notes may come from one address, so that one stranger cannot hide the others'
tries."""
NOTED_NAME: Final = 60
"""Failures of one known name noted in an hour beyond these limits: twice what its delays let through."""

Clock = Callable[[], float]
Key = TypeVar("Key")
T = TypeVar("T")


class Tries:
    """A sliding-window limit: at most `count` tries per key within any `seconds`."""

    def __init__(self, count: int, seconds: float, *, clock: Clock = time.monotonic) -> None:
        self._count = count
        self._seconds = seconds
        self._clock = clock
        self._times: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def wait_seconds(self, key: Hashable) -> int:
        """Return the whole seconds until the next try is admitted; 0 means now. Counts nothing."""
        times = self._times.get(key)
        if times is None or len(times) < self._count:
            return 0
        # The oldest try is the first to leave the window.
        return math.ceil(max(times[0] + self._seconds - self._clock(), 0))

    def take(self, key: Hashable) -> int:
        """Count a try and return 0, or return the seconds to wait without counting it."""
        wait = self.wait_seconds(key)
        if wait == 0:
            times = self._times.setdefault(key, deque(maxlen=self._count))
            times.append(self._clock())
            _keep_latest(self._times, key)
        return wait

    def give_back(self, key: Hashable) -> None:
        """Remove the latest try from the count."""
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
    """Throttles sign-ins with a password, by name and by address.

    Unknown names are throttled like known ones. Somebody who guesses at a name can keep its owner from
    signing in with the password in a new browser. A browser that has signed in before is counted
    separately (see `devices`). Sign-in links are not throttled and always work.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._names: OrderedDict[bytes, _Failures] = OrderedDict()
        self._addresses = Tries(ADDRESS_TRIES, ADDRESS_SECONDS, clock=clock)
        self._kind_notes = Tries(NOTED_KIND, NOTED_SECONDS, clock=clock)
        self._address_notes = Tries(NOTED_ADDRESS, NOTED_SECONDS, clock=clock)
        self._name_notes = Tries(NOTED_NAME, NOTED_SECONDS, clock=clock)

    def take(self, name: str, address: str, device: bytes | None = None) -> int:
        """Count a try and return 0, or return the seconds to wait. A try is failed until `succeed`.

        The tries of a known device count for it alone, not for the name or the address.
        """
        now, key, place = self._clock(), device or _key(name), network_of(address)
        known = self._names.get(key)
        if known is not None and now - known.last >= FORGET_SECONDS:
            known = None
        wait = _find_wait(known, now)
        if device is None:
            wait = max(wait, self._addresses.wait_seconds(place))
        if wait == 0:
            if device is None:
                self._addresses.take(place)
            # Only an admitted try sets the time: else a guesser could keep the owner out for good.
            self._names[key] = _Failures(known.count + 1 if known else 1, now)
            _keep_latest(self._names, key)
        return wait

    def succeed(self, name: str, address: str, device: bytes | None = None) -> None:
        """Record that the password was right: reset the count, and take the try off the address."""
        if device is None:
            self.clear(name)
            self._addresses.give_back(network_of(address))
        else:
            self._names.pop(device, None)

    def give_back(self, name: str, address: str, device: bytes | None = None) -> None:
        """Take one try off the counts: it did not fail by a wrong password or a wrong code."""
        known = self._names.get(device or _key(name))
        if known is not None:
            known.count -= 1
        if device is None:
            self._addresses.give_back(network_of(address))

    def clear(self, name: str) -> None:
        """Reset a name whose owner is signed in."""
        self._names.pop(_key(name), None)

    def take_note(self, kind: str, address: str) -> bool:
        """Return whether to record a failure of this kind, of known and unknown names alike."""
        place = kind, network_of(address)
        if self._address_notes.wait_seconds(place) or self._kind_notes.wait_seconds(kind):
            return False
        self._address_notes.take(place)
        self._kind_notes.take(kind)
        return True

    def take_name_note(self, name: str) -> bool:
        """Return whether to record a failure beyond those limits, if the name is an account's."""
        return self._name_notes.take(_key(name)) == 0


def _keep_latest(known: OrderedDict[Key, T], key: Key) -> None:
    known.move_to_end(key)
    if len(known) > MAX_KNOWN:
        known.popitem(last=False)


def _find_wait(known: _Failures | None, now: float) -> int:
    if known is None or known.count < FREE_FAILURES:
        return 0
    # Bounded before the shift, as a count grows for as long as somebody guesses.
    doublings = min(known.count - FREE_FAILURES, MAX_DELAY_SECONDS.bit_length())
    return math.ceil(max(known.last + min(1 << doublings, MAX_DELAY_SECONDS) - now, 0))


def _key(name: str) -> bytes:
    """Hash a name: people type passwords into the wrong field, and keys should have one size.

    Names that Unicode writes in several ways are found by each of them, so they are counted as one.
    """
    composed = unicodedata.normalize("NFC", name)
    return hashlib.blake2b(composed.encode(), digest_size=16).digest()


def network_of(address: str) -> str:
    """Return the /64 network of an IPv6 address, as one client has all of it; else the address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(ip_network((int(parsed), 64), strict=False))
    return address


_NONCE_BYTES: Final = 16
"""Random bytes that identify a browser for counting: no two browsers share a count."""
_TAG_BYTES: Final = 6
"""Bytes of the hash of an account's name in a cookie's name: one browser may sign in to several accounts."""


DEVICE_SECONDS: Final = 400 * 86400
"""How long a browser keeps a device cookie: browsers keep none for longer."""


@dataclass(frozen=True, slots=True)
class Cookie:
    name: str
    value: str = field(repr=False)
    max_age_seconds: int
    """0 deletes it."""


def name_cookie(account: str) -> str:
    return "gateway_device_" + hashlib.blake2b(account.encode(), digest_size=_TAG_BYTES).hexdigest()


def make_cookie(account: str, stored_hash: str) -> Cookie:
    """Make the cookie of a browser that has just signed in."""
    nonce = os.urandom(_NONCE_BYTES)
    value = base64.urlsafe_b64encode(nonce + _sign(account, stored_hash, nonce)).decode()
    # `=` would have to be quoted in a cookie.
    return Cookie(name_cookie(account), value.rstrip("="), DEVICE_SECONDS)


def find_device(value: str, account: str, stored_hash: str | None) -> bytes | None:
    """Return the key of the browser's own counter; None if the cookie is not valid for this account."""
    try:
        found = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    # Compared in constant time: a signature must not be found byte by byte.
    nonce, signature = found[:_NONCE_BYTES], found[_NONCE_BYTES:]
    if stored_hash is None or not hmac.compare_digest(
        signature, _sign(account, stored_hash, nonce)
    ):
        return None
    return nonce


def _sign(account: str, stored_hash: str, nonce: bytes) -> bytes:
    # The stored hash is the key, so that a new password makes all earlier cookies worthless.
    message = b"device cookie\0" + nonce + account.encode()
    return hmac.digest(stored_hash.encode(), message, "sha256")
