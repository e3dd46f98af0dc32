"""A provider at run time: its requests in flight, the breakers of what failed, the pauses that it asked for.

A circuit breaker counts failures in a row; while it is open, its routes come last.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from gateway.base import errors
from gateway.config.records import Provider
from gateway.upstream.attempt import Forwarder
from gateway.upstream.keys import ProviderKey

log = logging.getLogger("gateway.providers")

WHOLE: Final = ""
"""Stands for a provider as a whole where its models have breakers."""
FAILURES: Final = 5
"""Failures in a row that open a breaker. Single 5xx are common at providers that work."""
OPEN_SECONDS: Final = 30.0
"""The pause before a probe, about as long as a server takes to restart: a failed probe costs a
caller."""
INSTANT_SECONDS: Final = 0.1
"""Seconds within which broken replies share one cause: a proxy that restarts breaks many at once."""

BreakerState = Literal["closed", "open", "probing"]


@dataclass(slots=True, eq=False)
class Breaker:
    """Counts failures in a row of a provider or of one of its models. While it is open their routes come last.

        closed ── 5 failures in a row ──> open, 30 s ──> one probe ── it works ──> closed
                                              ^                    └─ it fails ──┘

    Times are seconds of a monotonic clock, passed in.
    """

    failures: int = 0
    """Failures in a row, up to now."""
    # A monotonic clock may begin at 0, and the first failure has to count.
    _failed_at: float = -INSTANT_SECONDS
    _open_until: float = 0.0
    _probing: bool = False

    @property
    def is_open(self) -> bool:
        return self.failures >= FAILURES

    def describe(self, now: float) -> tuple[BreakerState, int]:
        """Return the state, and the whole seconds until a request may try again.

        `open` with 0 seconds: the next request is the probe. `probing`: one is in flight.
        """
        if not self.is_open:
            return "closed", 0
        if self._probing:
            return "probing", 0
        return "open", max(math.ceil(self._open_until - now), 0)

    def wait_seconds(self, now: float) -> float:
        """Return how long no request may be sent; 0 if one may, perhaps as the probe."""
        if not self.is_open:
            return 0.0
        if now < self._open_until:
            return self._open_until - now
        return OPEN_SECONDS if self._probing else 0.0

    def begin(self) -> bool:
        """Note that a request goes out; return whether it is the probe of an open breaker."""
        is_probe = self.is_open and not self._probing
        self._probing |= is_probe
        return is_probe

    def fail(self, now: float, *, at_once: bool = False) -> bool:
        """Note that the provider failed; return whether this opened the breaker.

        `at_once`: the failure does not count if another was noted at the same instant.
        """
        was_open = self.is_open
        self._probing = False
        # A proxy that restarts breaks all streams at once: that is one failure, not five.
        if at_once and now - self._failed_at < INSTANT_SECONDS:
            return False
        self._failed_at = now
        self.failures += 1
        if self.is_open:
            self._open_until = now + OPEN_SECONDS
        return self.is_open and not was_open

    def forget(self) -> None:
        """Note that the probe ended without saying anything about the provider."""
        self._probing = False


UNBROKEN: Final = Breaker()
"""The breaker of a model that never failed."""


@dataclass(slots=True)
class Load:
    """The requests in flight to one provider, under all its settings since the start."""

    in_flight: int = 0


class ProviderState:
    """A provider at run time: its forwarder, its requests in flight, its breakers, the pauses it asked for."""

    __slots__ = ("_breakers", "_load", "_rests_until", "config", "forwarder", "name")

    def __init__(self, forwarder: Forwarder, before: ProviderState | None = None) -> None:
        """`before`: the same provider with its previous settings, which may have requests in flight."""
        self.forwarder = forwarder
        self.config: Provider = forwarder.provider
        self.name = self.config.name
        # Requests by the old settings are still in flight, and `max_concurrency` holds for all of them.
        self._load: Load = Load() if before is None else before._load  # noqa: SLF001 - of this class
        self._breakers: dict[str, Breaker] = {}
        """Breakers of what failed: of `WHOLE`, and by upstream model, as one says nothing about another."""
        self._rests_until: dict[str, float] = {}
        """The ends of pauses that the provider asked for, by upstream model."""

    @property
    def in_flight(self) -> int:
        return self._load.in_flight

    def describe_breaker(self) -> tuple[BreakerState, int]:
        """Return the state of the provider's breaker and the whole seconds until the next try."""
        return self._breakers.get(WHOLE, UNBROKEN).describe(time.monotonic())

    def list_troubled(self) -> list[tuple[str, BreakerState, int, int]]:
        """Return the models that have an open breaker or rest: name, state, seconds of breaker and rest."""
        now = time.monotonic()
        troubled = []
        for model in sorted({*self._breakers, *self._rests_until} - {WHOLE}):
            state, seconds = self._breakers.get(model, UNBROKEN).describe(now)
            rest = math.ceil(max(self._rests_until.get(model, 0.0) - now, 0.0))
            if state != "closed" or rest:
                troubled.append((model, state, seconds, rest))
        return troubled

    @property
    def keys(self) -> Sequence[ProviderKey]:
        return self.forwarder.keys

    def comes_last(self, upstream_model: str) -> bool:
        """Return whether a breaker is open, or a pause that the provider asked for is not over."""
        now, breakers = time.monotonic(), self._list_breakers(upstream_model)
        is_open = any(one.wait_seconds(now) > 0 for one in breakers)
        return is_open or self._rests_until.get(upstream_model, 0.0) > now

    def enter(self, upstream_model: str) -> Sequence[Breaker]:
        """Count a request that begins; return the breakers whose probe it is, usually none.

        Raises UpstreamUnavailable at `max_concurrency`.
        """
        if self.config.max_concurrency:
            self._check_room()
        self._load.in_flight += 1
        if not self._breakers:
            return ()
        return [one for one in self._list_breakers(upstream_model) if one.begin()]

    def leave(
        self, upstream_model: str, error: BaseException | None, probed: Sequence[Breaker] = ()
    ) -> None:
        """Count a request that ends; the breakers note how it ended. `probed` is what `enter` returned."""
        self._load.in_flight -= 1
        if error is None or isinstance(error, errors.BadRequest):
            # To refuse a bad request is an answer, too: breakers judge the provider, not what callers ask.
            if self._breakers:  # tested here, too, which saves each good request a call
                self.note_alive(upstream_model)
            return
        # A caller that leaves, or a shutdown, says nothing about the provider: another probe may be sent.
        for breaker in probed:
            breaker.forget()
        if isinstance(error, errors.UpstreamError):
            if error.blame != "nobody":
                self._note_failure(upstream_model, error.blame)
            # A rest may come without a failure: a provider that limits the rate (429) works.
            if seconds := error.rest_seconds:
                self._rests_until[upstream_model] = time.monotonic() + seconds
                text = "provider %s: asks for a pause of %.0f s for model %s"
                log.warning(text, self.name, seconds, upstream_model)

    @contextmanager
    def visit(self, upstream_model: str) -> Iterator[None]:
        """Count a request in flight whose failure concerns the whole provider, not one model.

        Raises UpstreamUnavailable at `max_concurrency`.
        """
        self._check_room()
        self._load.in_flight += 1
        try:
            yield
        except errors.UpstreamError as error:
            if error.blame == "provider":
                self._note_failure(upstream_model, error.blame)
            raise
        finally:
            self._load.in_flight -= 1

    def note_alive(self, upstream_model: str) -> None:
        """Note that the provider works: a reply has begun."""
        if not self._breakers:
            return
        if self._breakers.pop(WHOLE, UNBROKEN).is_open:
            log.warning("provider %s answers again", self.name)
        if self._breakers.pop(upstream_model, UNBROKEN).is_open:
            log.warning("provider %s: model %s answers again", self.name, upstream_model)

    def _list_breakers(self, upstream_model: str) -> list[Breaker]:
        """Return the breakers that concern a model; usually there are none."""
        return [self._breakers[one] for one in (WHOLE, upstream_model) if one in self._breakers]

    def _note_failure(self, upstream_model: str, blame: errors.Blame) -> None:
        failed = WHOLE if blame == "provider" else upstream_model
        breaker = self._breakers.setdefault(failed, Breaker())
        if not breaker.fail(time.monotonic(), at_once=blame == "reply"):
            return
        if failed is WHOLE:
            log.error("provider %s cannot be reached: its routes come last", self.name)
        else:
            text = "provider %s: model %s failed repeatedly: its routes come last"
            log.error(text, self.name, upstream_model)

    def _check_room(self) -> None:
        most = self.config.max_concurrency
        if most and self._load.in_flight >= most:
            raise errors.UpstreamUnavailable(
                "The upstream provider has as many requests as it may at once.",
                next_route=True,
                cause="not tried: max_concurrency",
            )
