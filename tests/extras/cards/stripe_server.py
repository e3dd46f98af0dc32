"""Plays Stripe: payment pages that a test pays, and events with real signatures.

Signatures are made by hand, as Stripe's documentation says, and not by the package that checks them.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from tests.extras.console.kit import Console
from tests.support.served import Reply

SECRET_KEY: Final = "sk_test_canary_0123456789"
WEBHOOK_SECRET: Final = "whsec_canary_0123456789"
PATH: Final = "/webhooks/stripe"


@dataclass(slots=True)
class StripeServer:
    """Stripe's API for Checkout, with its sessions in memory."""

    url: str = ""
    pages: str = "https://checkout.example.com"
    """Where the payment pages are."""
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    """Sessions by the idempotency keys of their requests."""
    forms: dict[str, dict[str, str]] = field(default_factory=dict)
    """Parameters by the same keys."""
    moves: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Moves of the balance by payments whose fee is known, by their ids."""
    refunds: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Refunds and disputes, by their ids."""
    page: int = 100
    """The most objects of one answer."""
    asked: list[str] = field(default_factory=list)
    """Method and path of each request."""
    status: int = 200
    """The status of every reply; not 200: it fails."""
    failing: str = ""
    """The path whose replies have that status; "" for all."""
    interrupt: Callable[[], object] | None = None
    """Called once, when the next request has come or, with `is_late`, was carried out."""
    is_late: bool = False

    @property
    def billing(self) -> str:
        """The lines of gateway.toml behind those of [billing]."""
        return (
            f'[billing.stripe]\nsecret_key = "{SECRET_KEY}"\nwebhook_secret = "{WEBHOOK_SECRET}"\n'
            f'base_url = "{self.url}"\nminimum = 5\nmaximum = 100_000\n'
        )

    def pay(self, session_id: str, **others: Any) -> dict[str, Any]:
        """Let a holder pay; return the session."""
        paid = {"status": "complete", "payment_status": "paid"}
        payment = {"payment_intent": f"pi_{session_id}", "invoice": f"in_{session_id}"}
        self.sessions[session_id].update({**paid, **payment, **others})
        return self.sessions[session_id]

    async def make(self, http: web.Request) -> web.Response:
        form = await http.post()
        key = http.headers["Idempotency-Key"]
        if key in self.keys and self.forms[key] != dict(form):
            return refuse(kind="idempotency_error")
        self.forms[key] = {name: str(value) for name, value in form.items()}
        session_id = self.keys.setdefault(key, f"cs_test_{len(self.keys) + 1}")
        self.sessions.setdefault(
            session_id,
            {
                "id": session_id,
                "object": "checkout.session",
                "status": "open",
                "payment_status": "unpaid",
                "client_reference_id": form["client_reference_id"],
                "metadata": {"order": form["metadata[order]"]},
                "amount_total": int(str(form["line_items[0][price_data][unit_amount]"])),
                "currency": form["line_items[0][price_data][currency]"],
                "payment_intent": None,
                "invoice": None,
                "success_url": form["success_url"],
                "url": f"{self.pages}/{session_id}",
            },
        )
        return web.json_response(self.sessions[session_id])

    async def show(self, http: web.Request) -> web.Response:
        session = dict(self.sessions[http.match_info["id"]])
        if "expand[0]" in http.query and session["invoice"]:
            url = f"https://invoice.example.com/{session['invoice']}"
            session["invoice"] = {"id": session["invoice"], "hosted_invoice_url": url}
        return web.json_response(session)

    async def show_payment(self, http: web.Request) -> web.Response:
        assert http.query["expand[0]"] == "latest_charge.balance_transaction"
        payment_id = http.match_info["id"]
        charge = {"id": f"ch_{payment_id}", "balance_transaction": self.moves.get(payment_id)}
        return web.json_response({"id": payment_id, "latest_charge": charge})

    async def list_all(self, http: web.Request) -> web.Response:
        wanted = http.query["payment_intent"]
        found = [one for one in self.sessions.values() if one["payment_intent"] == wanted]
        return web.json_response({"object": "list", "data": found, "has_more": False})

    async def list_back(self, http: web.Request) -> web.Response:
        """List refunds or disputes, the latest first; what Stripe does not know is refused."""
        kind = http.path.rpartition("/")[2].removesuffix("s")
        found = [one for one in self.refunds.values() if one["object"] == kind]
        found.sort(key=lambda one: -int(one["created"]))
        query = dict(http.query)
        since, limit = int(query.pop("created[gte]", 0)), int(query.pop("limit", 10))
        found = [one for one in found if one["created"] >= since]
        after, ids = query.pop("starting_after", None), [one["id"] for one in found]
        if query or not 1 <= limit <= 100 or after not in {None, *ids}:
            return refuse()
        begin = 0 if after is None else ids.index(after) + 1
        end = begin + min(limit, self.page)
        listed = {"object": "list", "url": http.path, "data": found[begin:end]}
        return web.json_response({**listed, "has_more": end < len(found)})

    def guard(self, handler: Handler) -> Handler:
        """Note each request, and fail if it is time to."""

        async def handle(http: web.Request) -> web.StreamResponse:
            self.asked.append(f"{http.method} {http.path}")
            assert http.headers["Authorization"] == f"Bearer {SECRET_KEY}"
            interrupt, self.interrupt = self.interrupt, None
            if interrupt and not self.is_late:
                interrupt()
                raise web.HTTPServiceUnavailable
            if self.status == 200 or self.failing not in {"", http.path}:
                response = await handler(http)
                if interrupt:
                    interrupt()
                return response
            return refuse(self.status)

        return handle


def refuse(status: int = 400, kind: str = "invalid_request_error") -> web.Response:
    error = {"message": "no such thing", "type": kind}
    return web.json_response({"error": error}, status=status)


@contextlib.asynccontextmanager
async def run_stripe() -> AsyncIterator[StripeServer]:
    server = StripeServer()
    app = web.Application()
    app.router.add_post("/v1/checkout/sessions", server.guard(server.make))
    app.router.add_get("/v1/checkout/sessions", server.guard(server.list_all))
    app.router.add_get("/v1/checkout/sessions/{id}", server.guard(server.show))
    app.router.add_get("/v1/payment_intents/{id}", server.guard(server.show_payment))
    app.router.add_get("/v1/refunds", server.guard(server.list_back))
    app.router.add_get("/v1/disputes", server.guard(server.list_back))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


def sign(body: bytes, *, secret: str = WEBHOOK_SECRET, age_seconds: int = 0) -> str:
    at = int(time.time()) - age_seconds
    mac = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={mac.hexdigest()},v0=00"


def make_event(kind: str, thing: dict[str, Any], **others: Any) -> bytes:
    event = {"id": "evt_1", "object": "event", "type": kind, "data": {"object": thing}, **others}
    return json.dumps(event).encode()


def make_refund(payment_id: str, cents: int, **others: Any) -> dict[str, Any]:
    refund = {"id": "re_1", "object": "refund", "amount": cents, "currency": "usd"}
    refund["created"] = int(time.time())
    return {**refund, "payment_intent": payment_id, "status": "succeeded", **others}


def make_charge(payment_id: str, cents: int, **others: Any) -> dict[str, Any]:
    charge = {"id": "ch_1", "object": "charge", "amount_refunded": cents, "currency": "usd"}
    return {**charge, "payment_intent": payment_id, "metadata": {}, **others}


def make_dispute(payment_id: str, cents: int, **others: Any) -> dict[str, Any]:
    dispute = {"id": "dp_1", "object": "dispute", "amount": cents, "currency": "usd"}
    dispute["created"] = int(time.time())
    return {**dispute, "payment_intent": payment_id, "status": "needs_response", **others}


def make_move(id_: str, fee: int, **others: Any) -> dict[str, Any]:
    """Make a move of Stripe's balance, which names its fee."""
    move = {"id": id_, "object": "balance_transaction", "fee": fee, "currency": "usd"}
    return {**move, "created": int(time.time()), **others}


async def tell(
    console: Console, kind: str, thing: dict[str, Any], headers: dict[str, str] | None = None
) -> Reply:
    """Send an event as Stripe does."""
    body = make_event(kind, thing)
    return await console.post(
        PATH, body, as_=None, headers={"Stripe-Signature": sign(body), **(headers or {})}
    )
