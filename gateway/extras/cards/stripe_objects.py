"""Read Stripe's objects as payments, reversals and fees. Each value is checked.

Stripe counts amounts in a currency's smallest unit, see `settings`. The endpoint at Stripe must subscribe to
the events in `READERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal

from gateway.base.money import MAX_AMOUNT_NANO
from gateway.extras.cards.provider import BadMessage
from gateway.extras.cards.records import Fee, PageState, Payment, Reversal
from gateway.extras.cards.settings import find_minor_nano
from gateway.ledger.checks import MAX_MOMENT_MS

_ENDED_REFUNDS: Final = frozenset({"failed", "canceled"})
_INQUIRIES: Final = frozenset({"warning_needs_response", "warning_under_review", "warning_closed"})
"""States of disputes in which no money has moved. A closed one does not count as won: a won dispute is
final, but after a warning the bank may go on and take the money."""
_WON: Final = frozenset({"won", "prevented"})

_WORD: Final = re.compile(r"[!-~]{1,255}")
"""Ids are parts of keys and paths; Stripe's have up to 255 characters."""
_URL: Final = re.compile(r"https?://[!-~]{1,8000}")
_MAX_SECONDS: Final = MAX_MOMENT_MS // 1000
"""The latest Unix time that can be written as a date: dates end with the year 9999."""

Object = Mapping[str, Any]
Reader = Callable[[Object], Payment | Reversal | None]


def read_page(session: Object, state: PageState = "open") -> Payment:
    """Read a session; `state` is its state if it is neither paid nor expired."""
    if _read_word(session, "payment_status") == "paid":
        state = "paid"
    elif _read_word(session, "status") == "expired":
        state = "expired"
    return Payment(
        need_word(session, "id"),
        # Whoever opens a payment link can choose its `client_reference_id`, but not its metadata.
        _read_order_id(session),
        state,
        *_read_amount(session, "amount_total"),
        _read_id(session, "payment_intent") or None,
    )


def read_refund(refund: Object) -> Reversal:
    return Reversal(
        need_word(refund, "id"),
        "refund",
        _read_id(refund, "payment_intent"),
        None,
        *_read_amount(refund, "amount"),
        stands=_read_word(refund, "status") not in _ENDED_REFUNDS,
    )


def _read_charge(charge: Object) -> Reversal:
    return Reversal(
        need_word(charge, "id"),
        "refunds",
        _read_id(charge, "payment_intent"),
        _read_order_id(charge),
        *_read_amount(charge, "amount_refunded"),
        stands=True,
    )


def read_dispute(dispute: Object) -> Reversal | None:
    status = _read_word(dispute, "status")
    if status in _INQUIRIES:
        return None
    moves = read_objects(dispute, "balance_transactions")
    return Reversal(
        need_word(dispute, "id"),
        "dispute",
        _read_id(dispute, "payment_intent"),
        None,
        *_read_amount(dispute, "amount"),
        stands=status not in _WON,
        fees=tuple(read_fee("dispute", one) for one in moves),
    )


def read_each(read: Reader, things: Iterable[Object]) -> Iterator[Reversal | BadMessage]:
    """Read the objects of a page. One that cannot be read must not hide the others."""
    for thing in things:
        try:
            found = read(thing)
        except BadMessage as error:
            id_ = thing.get("id")
            named = id_ if isinstance(id_, str) and _WORD.fullmatch(id_) else "one without an id"
            yield BadMessage(f"{named}: {error}")
        else:
            if isinstance(found, Reversal):
                yield found


def read_fee(kind: Literal["payment", "dispute"], move: Object) -> Fee:
    """Read the fee of a move of the balance at Stripe."""
    created = _read_integer(move, "created", 0, _MAX_SECONDS)
    return Fee(need_word(move, "id"), kind, *_read_amount(move, "fee", signed=True), created * 1000)


def _read_amount(thing: Object, name: str, *, signed: bool = False) -> tuple[int, str]:
    """Return an amount in nano-units, and its currency in capitals."""
    currency = (_read_word(thing, "currency") or "").upper()
    minor_nano = find_minor_nano(currency)
    most = MAX_AMOUNT_NANO // minor_nano
    return _read_integer(thing, name, -most if signed else 0, most) * minor_nano, currency


def _read_integer(thing: Object, name: str, least: int, most: int) -> int:
    """Return a number, or 0 if there is none."""
    value = thing.get(name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadMessage(f"its {name} is no number that can be")
    return value


def _read_word(thing: Object, name: str) -> str | None:
    """Return an id, a state or the like; None if there is none."""
    value = thing.get(name)
    if value is None or (isinstance(value, str) and _WORD.fullmatch(value)):
        return value
    raise BadMessage(f"its {name} is no word")


def need_word(thing: Object, name: str) -> str:
    value = _read_word(thing, name)
    if value is None:
        raise BadMessage(f"it has no {name}")
    return value


def _read_id(thing: Object, name: str) -> str:
    """Return the id of a member that is an id or a whole object; "" if it is absent."""
    value = thing.get(name)
    return need_word(value, "id") if isinstance(value, dict) else _read_word(thing, name) or ""


def _read_order_id(thing: Object) -> str | None:
    """Return the order's id in the metadata; None if it is no valid id, as others may write any metadata."""
    value = (read_object(thing, "metadata") or {}).get("order")
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def read_object(thing: Object, name: str) -> Object | None:
    """Return an object; None if there is none, or its id alone."""
    value = thing.get(name)
    if value is None or isinstance(value, str):
        return None
    if not isinstance(value, dict):
        raise BadMessage(f"its {name} is no object")
    return value


def read_objects(thing: Object, name: str) -> Iterator[Object]:
    """Yield the objects of a list, which may be missing, and may have ids alone."""
    value = thing.get(name)
    if value is not None and not isinstance(value, list):
        raise BadMessage(f"its {name} is no list")
    return (one for one in value or () if isinstance(one, dict))


def check_url(value: object) -> str:
    """Check an address to which people are redirected, as it becomes a header."""
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise BadMessage("an address in it is none")
    return value


READERS: Final[Mapping[str, Reader]] = {
    "checkout.session.completed": read_page,
    "checkout.session.async_payment_succeeded": read_page,
    "checkout.session.async_payment_failed": partial(read_page, state="failed"),
    "checkout.session.expired": read_page,
    "charge.refunded": _read_charge,
    **dict.fromkeys(
        ("refund.created", "refund.updated", "refund.failed", "charge.refund.updated"), read_refund
    ),
    **dict.fromkeys(
        (
            "charge.dispute.created",
            "charge.dispute.updated",
            "charge.dispute.closed",
            "charge.dispute.funds_withdrawn",
            "charge.dispute.funds_reinstated",
        ),
        read_dispute,
    ),
}
"""Readers by the type of event."""
