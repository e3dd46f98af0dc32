"""Payments by card, played as they are written in `played/`: sessions with the console and a Stripe.

    $ pay cs_test_1 {"payment_status": "unpaid"}        somebody pays; what of the session differs
    $ page cs_test_2 {"status": "expired"}              a session changes; where it leads back to
    $ tell charge.dispute.created pi_cs_test_1 1000     an event, of a session or a payment's cents
    200 | paid, made | 10.00                            its reply, all orders, what the holder has more
    $ stripe 503                                        Stripe replies so from now on
    $ stripe 403 /v1/refunds                            to requests for this path
    $ forget                                            Stripe forgets the idempotency keys
    $ fee pi_cs_test_1 59                               Stripe knows the fee of a payment, in cents
    $ look 31                                           open orders of so many days are looked up
    $ look fees                                         and fees
    $ lose refund pi_cs_test_1 300                      a refund or dispute whose message is lost
    $ pages 1                                           so many of them are in one answer of Stripe's
    $ look back                                         they are looked up, twice; all orders, what the holder has more
    $ run orders                                        the command line, and what it prints
    $ asked                                             what Stripe was asked since
    $ log                                               what was logged since

`tests/extras/console/test_played.py` says the rest.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import AsyncMock

import pytest

from gateway.base.money import format_amount
from gateway.base.times import DAY_MS
from gateway.extras.cards.cashier import Cashier
from tests.extras.cards.conftest import Shop
from tests.extras.cards.stripe_server import (
    PATH,
    StripeServer,
    make_charge,
    make_dispute,
    make_event,
    make_move,
    make_refund,
    run_stripe,
    sign,
)
from tests.extras.console.kit import Console
from tests.extras.console.test_played import Verb, play, stop_clocks, tell
from tests.ledger.player import read_sessions
from tests.support.cli import run_here

SESSIONS: Final = read_sessions(Path(__file__).with_name("played"))
VERBS: Final = (
    "pay", "page", "pages", "tell", "stripe", "forget", "fee", "lose", "look", "run", "asked", "log",
)  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_payment_goes_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    stop_clocks(monkeypatch)
    # Its look at the start may come after the first orders, and ask Stripe between two rows.
    monkeypatch.setattr(Cashier, "run", AsyncMock())
    caplog.set_level("INFO")
    async with run_stripe() as stripe:

        def make_verbs(console: Console) -> dict[str, Verb]:
            shop = Shop(console, stripe)
            return {verb: partial(answer, shop, caplog, verb) for verb in VERBS}

        await play(tmp_path, *SESSIONS[name], make_verbs, billing=stripe.billing)


async def answer(
    shop: Shop, caplog: pytest.LogCaptureFixture, verb: str, rest: str, fields: list[str]
) -> str:
    words, brace, more = rest.partition("{")
    given = json.loads(brace + more or "{}")
    match verb, *shlex.split(words):
        case "tell", kind, id_, *cents:
            body = make_message(shop.stripe, kind, id_, list(map(int, cents)), given)
            headers = {"Stripe-Signature": sign(body)}
            reply = await shop.console.post(PATH, body, as_=None, headers=headers)
            return f"{tell(reply, fields)} | {describe(shop)}"
        case "look", what:
            cashier = shop.make_cashier()
            match what:
                case "fees":
                    await cashier.find_fees()
                case "back":
                    await cashier.look_back()
                    await cashier.look_back()
                case days:
                    await cashier.look_all_up(int(days) * DAY_MS)
            await cashier.close()
            return describe(shop) if what == "back" else "done"
        case "run", *command:
            environ = {"GATEWAY_CONFIG": str(shop.console.folder / "gateway.toml")}
            done = run_here(command, environ)
            return f"{done.code} {done.err}{done.out}".rstrip()
        case "log", *_:
            messages = "\n".join(caplog.messages)
            caplog.clear()
            return messages or "nothing"
        case _:
            return prepare(shop.stripe, verb, words.split(), given)
    return "done"


def describe(shop: Shop) -> str:
    states = ", ".join(one.state for one in reversed(shop.read_orders()))
    return f"{states} | {format_amount(shop.added_nano())}"


def prepare(stripe: StripeServer, verb: str, words: list[str], given: dict[str, Any]) -> str:
    """Set what Stripe says from now on, or tell what it was asked."""
    match verb, *words:
        case "stripe", status, *path:
            stripe.status, stripe.failing = int(status), "".join(path)
        case "forget", *_:
            stripe.keys = {f"forgotten-{key}": id_ for key, id_ in stripe.keys.items()}
        case "fee", payment_id, cents:
            stripe.moves[payment_id] = make_move("txn_1", int(cents), **given)
        case "lose", kind, payment_id, cents:
            lost = (make_dispute if kind == "dispute" else make_refund)(payment_id, int(cents))
            stripe.refunds[given.get("id", lost["id"])] = lost | read_moves(given)
        case "pages", size:
            stripe.page = int(size)
        case "pay", session_id:
            paid = stripe.pay(session_id, **given)
            return f"{paid['amount_total']} {paid['currency']}"
        case "page", session_id:
            stripe.sessions[session_id] |= given
            return str(stripe.sessions[session_id]["success_url"])
        case "asked", *_:
            asked = Counter(stripe.asked)
            stripe.asked.clear()
            return "\n".join(f"{count} x {one}" for one, count in asked.items()) or "nothing"
        case _:
            raise ValueError(verb)
    return "done"


def read_moves(given: dict[str, Any]) -> dict[str, Any]:
    """Make the moves of the balance of which an id and a fee are given."""
    if moves := given.get("balance_transactions"):
        return given | {"balance_transactions": [make_move(*one) for one in moves]}
    return given


def make_message(
    stripe: StripeServer, kind: str, id_: str, cents: list[int], given: dict[str, Any]
) -> bytes:
    outer = given.pop("outer", {})
    given = read_moves(given)
    if not cents:
        thing = stripe.sessions.get(id_, {"id": id_})
    elif "dispute" in kind:
        thing = make_dispute(id_, *cents)
    else:
        thing = (make_charge if kind == "charge.refunded" else make_refund)(id_, *cents)
    return make_event(kind, thing | given, **outer)
