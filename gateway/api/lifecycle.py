"""The life of a completion, without I/O: its phases, how it can end, and who pays for which end.

    ADMITTED ──> SENT ──> ANSWERED ──> STREAMING ──> ENDED
        ^          │
        └──────────┘  the provider declined; the next route may be tried

The driver (`completions`) reports events and carries out the decisions. JSON replies and streams share
this machine: a JSON reply never reaches STREAMING, and its last bytes are its whole body.

If the caller leaves a JSON request, nothing changes: the reply is read to its end and charged. If it
leaves a stream, no more bytes are sent, and the provider's `on_disconnect` decides whether the upstream
is read on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from itertools import product
from typing import Final

from gateway.base import errors
from gateway.base.deadlines import Life
from gateway.ledger.call_records import Outcome

CALLER_GONE_STATUS: Final = 499
"""Recorded where the caller left before the head was sent (nginx's number); never on the wire."""


class Phase(Enum):
    __hash__ = object.__hash__  # Enum's own is Python code, and each request looks up six members
    ADMITTED = "before a provider has it"
    SENT = "sent"
    ANSWERED = "answered"
    STREAMING = "streaming"
    ENDED = "ended"


class Ending(Enum):
    """Why the upstream is not read any further."""

    __hash__ = object.__hash__

    COMPLETE = "the reply is complete"
    REJECTED = "the provider finds fault with the request"
    FAILED = "no route works, or the provider breaks off"
    UNDELIVERABLE = "the reply was made and cannot be passed on"
    TIMED_OUT = "a deadline of the provider passes"
    UNRECORDED = "the ledger cannot record the request"
    SHUTDOWN = "the gateway is stopped"
    FAULT = "the gateway fails"
    ABANDONED = "the caller leaves and the provider is not read on"


class Owed(Enum):
    """The amount that a completion is charged for."""

    NOTHING = "nothing"
    USAGE = "what was used"
    """The provider's report; while it has none, or the reply is not complete, at least the estimate
    of the input and of what was delivered."""
    EXPECTED = "what was expected"
    """The expected cost, or the input and what was delivered if that costs more."""


class Last(Enum):
    """The last thing that the caller gets."""

    REPLY = "the end of the reply"
    """The JSON body; `[DONE]` or `message_stop`. It leaves once the charge is committed."""
    ERROR = "an error"
    """A status with a body; after the head one error event, or a cut if an event is half sent."""
    NOTHING = "nothing"


class Leaving(Enum):
    """The treatment of the upstream when the caller leaves."""

    STOP = "close the upstream connection"
    READ_ON = "read to the end"
    READ_USAGE = "read on for a moment: only the usage is missing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a completion is recorded, what it costs, and what its caller gets last."""

    outcome: Outcome
    status: int
    owed: Owed
    last: Last


_BEFORE: Final = frozenset({Phase.ADMITTED, Phase.SENT, Phase.ANSWERED})
_AFTER: Final = frozenset({Phase.STREAMING})
_ADMITTED: Final = frozenset({Phase.ADMITTED})
_TAKEN: Final = frozenset({Phase.SENT, Phase.ANSWERED, Phase.STREAMING})
_ANY: Final = _BEFORE | _AFTER
_YES, _NO, _EITHER = frozenset({True}), frozenset({False}), frozenset({True, False})
_COMPLETE: Final = frozenset({Ending.COMPLETE})
_ABANDONED: Final = frozenset({Ending.ABANDONED})
_MADE: Final = frozenset({Ending.UNDELIVERABLE})
_FAILURES: Final = frozenset(Ending) - _COMPLETE - _ABANDONED - _MADE

ENDINGS: Final = (
    # ending     caller gone  phases     delivered  owed             the caller gets
    (_COMPLETE,  _NO,         _ANY,      _EITHER,   Owed.USAGE,      Last.REPLY),
    (_FAILURES,  _NO,         _BEFORE,   _EITHER,   Owed.NOTHING,    Last.ERROR),
    (_FAILURES,  _NO,         _AFTER,    _NO,       Owed.NOTHING,    Last.ERROR),
    (_FAILURES,  _NO,         _AFTER,    _YES,      Owed.USAGE,      Last.ERROR),
    (_MADE,      _NO,         _ANY,      _EITHER,   Owed.USAGE,      Last.ERROR),
    (_COMPLETE,  _YES,        _ANY,      _EITHER,   Owed.USAGE,      Last.NOTHING),
    (_MADE,      _YES,        _ANY,      _EITHER,   Owed.USAGE,      Last.NOTHING),
    (_FAILURES,  _YES,        _ANY,      _NO,       Owed.NOTHING,    Last.NOTHING),
    (_FAILURES,  _YES,        _ANY,      _YES,      Owed.USAGE,      Last.NOTHING),
    (_ABANDONED, _YES,        _ADMITTED, _EITHER,   Owed.NOTHING,    Last.NOTHING),
    (_ABANDONED, _YES,        _TAKEN,    _EITHER,   Owed.EXPECTED,   Last.NOTHING),
)  # fmt: skip
"""The table of who pays when. "Delivered": text, reasoning or arguments came from the provider in events, or
a JSON reply was read whole."""

Case = tuple[Ending, bool, Phase, bool]
"""Ending, whether the caller is gone, phase, and whether anything was delivered."""
VERDICTS: Final[dict[Case, tuple[Owed, Last]]] = {
    case: (owed, last)
    for endings, gone, phases, delivered, owed, last in ENDINGS
    for case in product(endings, gone, phases, delivered)
}

OUTCOMES: Final[dict[Ending, Outcome]] = {
    Ending.COMPLETE: "complete",
    Ending.REJECTED: "rejected",
    Ending.FAILED: "upstream_error",
    Ending.UNDELIVERABLE: "upstream_error",
    Ending.TIMED_OUT: "upstream_timeout",
    Ending.UNRECORDED: "ledger_error",
    Ending.SHUTDOWN: "shutdown",
    Ending.FAULT: "internal_error",
}
"""The outcome of each ending while the caller is there; afterwards it is `caller_left`."""

UNCOMMITTED: Final = {
    # a stream: owed, the caller gets
    False: (Owed.NOTHING, Last.ERROR),
    True: (Owed.USAGE, Last.ERROR),
}
"""The verdict on a charge that is not committed in time, see `ServingLedger.settle`. A JSON reply's charge
is withdrawn, as nothing was delivered; a stream's charge stays queued."""

UNCONCLUDED: Final = Verdict("internal_error", 500, Owed.NOTHING, Last.ERROR)
"""The verdict if the conclusion itself fails and the usage is unknown. It voids the request, unless a
settlement was queued before."""


class CallerLeft(Exception):
    """The caller is gone and the upstream is not read on. The provider is not to blame."""


_ENDED_BY: Final = (
    (CallerLeft, Ending.ABANDONED),
    (errors.UpstreamTimeout, Ending.TIMED_OUT),
    (errors.UndeliverableReply, Ending.UNDELIVERABLE),
    (errors.UpstreamError, Ending.FAILED),
    (errors.BadRequest, Ending.REJECTED),
    (errors.LedgerUnavailable, Ending.UNRECORDED),
    (errors.OutOfResources, Ending.FAULT),
    (errors.Overloaded, Ending.SHUTDOWN),
    (errors.GatewayError, Ending.FAULT),
)
"""The first matching row counts, so subclasses stand above their base class."""

_STEPS: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.ADMITTED: frozenset({Phase.SENT}),
    # SENT follows itself after a stale connection; a provider's refusal leads back to ADMITTED.
    Phase.SENT: frozenset({Phase.SENT, Phase.ADMITTED, Phase.ANSWERED}),
    Phase.ANSWERED: frozenset({Phase.STREAMING}),
    Phase.STREAMING: frozenset(),
    Phase.ENDED: frozenset(),
}


def find_ending(error: Exception) -> Ending:
    """Return the ending that an error stands for."""
    return next(ending for kind, ending in _ENDED_BY if isinstance(error, kind))


def lose_charge(verdict: Verdict, status: int, *, stream: bool) -> Verdict:
    """Return the verdict that replaces one whose charge cannot be committed; `status` is the error's."""
    owed, last = UNCOMMITTED[stream]
    if owed is Owed.NOTHING:
        return Verdict("ledger_error", status, owed, last)
    return replace(verdict, last=last)


@cache
def judge(case: Case, head_sent: bool, error_status: int) -> Verdict:
    """Return the verdict on a case. Cached, as cases are few. Raises LookupError for an impossible one."""
    ending, caller_gone, *_ = case
    owed, last = VERDICTS[case]
    if not caller_gone:
        status = 200 if head_sent or ending is Ending.COMPLETE else error_status
        return Verdict(OUTCOMES[ending], status, owed, last)
    return Verdict("caller_left", 200 if head_sent else CALLER_GONE_STATUS, owed, last)


@dataclass(slots=True, eq=False)
class Lifecycle(Life):
    """The state of one completion. Its driver calls `end` exactly once; illegal steps are bugs and raise."""

    phase: Phase = Phase.ADMITTED
    confirmed: bool = False
    """The hold is in force. Until then nothing is sent to a provider or to the caller."""
    read_until: float = math.inf
    """When to give up a reply that is read on only for its usage, by the ticker's clock."""
    ended_as: Case | None = None

    def advance(self, phase: Phase) -> None:
        """Enter the next phase. Raises ValueError for a step that no request can make."""
        if phase not in _STEPS[self.phase]:
            raise ValueError(f"a request cannot go from {self.phase.name} to {phase.name}")
        self.phase = phase

    def note_sent(self) -> None:
        self.advance(Phase.SENT)

    def note_declined(self) -> None:
        self.advance(Phase.ADMITTED)

    def leave(self, *, drains: bool, finished: bool) -> Leaving:
        """Note that the caller left; return what to do about the upstream.

        `drains` is the provider's `on_disconnect`. `finished`: every choice has its finish reason.
        """
        self.caller_gone = True
        # No provider has the request, so ending it now is free.
        if self.phase is Phase.ADMITTED:
            return Leaving.STOP
        if drains:
            return Leaving.READ_ON
        return Leaving.READ_USAGE if finished else Leaving.STOP  # providers send the usage next

    def end(self, error: Exception | None, *, head_sent: bool, delivered: bool) -> Verdict:
        """End the life, once. Raises LookupError for an ending that cannot happen here.

        `error` ended it; without one the reply is complete. `head_sent`: the 200 and the headers of a stream
        went out, so the status is decided.
        """
        ending = Ending.COMPLETE if error is None else find_ending(error)
        self.ended_as = (ending, self.caller_gone, self.phase, delivered)
        status = error.status if isinstance(error, errors.GatewayError) else 0
        verdict = judge(self.ended_as, head_sent, status)
        self.phase = Phase.ENDED
        return verdict
