"""Records for tests that read no file and send no request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from gateway.api.front import KeyedCall
from gateway.base.money import Tokens
from gateway.config.records import Provider
from tests.support.formats import CALLERS

_PROVIDER: Final[dict[str, Any]] = {
    "name": "p",
    "dialect": "chat",
    "base_url": "http://x",
    "api_keys": (),
    "sources": (),
    "lacking": (),
    "off": None,
    "connect_timeout": 5.0,
    "first_byte_timeout": 10.0,
    "idle_timeout": 3.0,
    "total_timeout": 60.0,
    "max_concurrency": 0,
    "on_disconnect": "drain",
    "stream_usage": True,
    "max_tokens_field": "max_tokens",
    "leading_system": False,
    "takes": frozenset(),
    "history": "any",
    "pass_headers": (),
    "embeddings_base64": True,
    "headers": {},
}


def make_provider(**changes: Any) -> Provider:
    """Make a provider of the chat dialect that differs from the plain one by `changes`."""
    return Provider(**_PROVIDER | changes)


def make_call(
    dialect: str = "chat", *, gateway: Any = None, started: float = 0.0, **facts: Any
) -> KeyedCall:
    """Make the record of a request, `req_1`; `gateway` is the part of one that is used.

    With an `outcome` it is settled.
    """
    facts = {"request_id": "req_1", "started_ms": 0, **facts}
    if "outcome" in facts:
        end = {"attempts": 0, "tokens": Tokens(), "cost_nano": 0, "estimated": False}
        end["first_byte_ms"] = None
        end |= {name: facts.pop(name) for name in ("outcome", *end) if name in facts}
        facts["settlement"] = SimpleNamespace(**end)
    return KeyedCall(gateway, dialect=CALLERS[dialect], started=started, **facts)


def make_bill_config(hold_output_tokens: int, full_hold_below: float) -> Any:
    """Make the settings by which holds are made and refused."""
    billing = SimpleNamespace(
        hold_output_tokens=hold_output_tokens, full_hold_below=full_hold_below, currency="USD"
    )
    return SimpleNamespace(billing=billing, server=SimpleNamespace(public_url=None))
