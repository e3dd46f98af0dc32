"""An operator who asks, and a key that is known: the tests of the operator's side share them."""

from __future__ import annotations

from typing import Any, Final

from gateway.admin import keys
from tests.console.kit import API, HOLDER, OPERATOR, Console, Reply

ACCOUNTS: Final = f"{API}/accounts"
ENTRY_FIELDS: Final = {
    "id", "account", "kind", "amount", "amount_nano", "balance_after", "balance_after_nano",
    "request_id", "note", "created",
}  # fmt: skip
ACCOUNT_FIELDS: Final = {
    "id", "name", "operator", "suspended", "balance", "balance_nano", "held", "held_nano",
    "created", "models", "requests_per_minute", "tokens_per_minute", "concurrency",
}  # fmt: skip


async def get(console: Console, path: str) -> Any:
    """The things that an operator is shown."""
    reply = await console.get(path, as_=OPERATOR)
    assert reply.status == 200, reply.body
    return reply.json


async def post(console: Console, path: str, body: object = None, key: str | None = None) -> Reply:
    """`key` is the Idempotency-Key."""
    return await console.post(path, body, as_=OPERATOR, key=key)


def url(console: Console, name: str, verb: str = "") -> str:
    """Read an account's balance by its name."""
    return f"{ACCOUNTS}/{console.account_id(name)}{verb}"


async def add_key(console: Console, account: str = HOLDER) -> str:
    """Made as the command line makes one, and known to the gateway."""
    with console.open_books() as books:
        secret = keys.add_key(books, account).secret
    assert console.gateway is not None
    await console.gateway.ledger.refresh()
    return secret


def quote(text: str) -> str:
    """Every byte of it, for a path or a query."""
    return "".join(f"%{byte:02X}" for byte in text.encode())
