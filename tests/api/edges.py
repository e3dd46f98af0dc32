"""Requests at the edges of what can be charged, over a scripted provider of each dialect.

Each charge is computed by a model of its own.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any, Final

from tests.support import messages, responses
from tests.support.chat import say
from tests.support.client import Reply
from tests.support.config import PATIENT, Kind
from tests.support.process import CHAT, MESSAGES
from tests.support.replies import completion, json_reply
from tests.support.stage import Stage

RESPONSES: Final = "/v1/responses"
PRICE: Final = (
    "{ input = 1.00, cached_input = 0.10, cache_write = 1.25, cache_write_1h = 2.00, output = 5.00"
)
BASE: Final = PRICE + ", web_search = 10.00 }"
MEDIA: Final = (
    PRICE
    + ", audio_input = 30.00, image_input = 3.00, audio_output = 60.00, image_output = 40.00 }"
)
BILLED: Final = "{ reported = 1.2, input = 1.00, output = 5.00, request = 0.01 }"
TOOLS: Final = "tool_prices = { file_search = 0.0025, x_search = 0.005, google_maps = 0.025 }"


def kind(price: str, dialect: Any, options: str = "") -> Kind:
    return Kind(("alpha",), 1, PATIENT, (dialect,), options, price=price)


DIALECTS: Final = ("chat", "messages", "responses")
KINDS: Final = {
    **{dialect: kind(BASE, dialect) for dialect in DIALECTS},
    **{f"tools-{dialect}": kind(BASE, dialect, TOOLS) for dialect in DIALECTS},
    **{f"billed-{dialect}": kind(BILLED, dialect) for dialect in DIALECTS},
    "media": kind(MEDIA, "chat"),
    "vast": kind("{ input = 1_000_000_000_000, output = 1_000_000_000_000 }", "chat"),
    "always": kind(BASE, "chat", ALWAYS := 'price_when = [{ hours = "00:00-24:00", weekdays = '
        '"mon-sun", from = 2020-01-01, price = { input = 7.00, output = 7.00 } }]'),
    "over": kind(BASE, "chat", "price_when = [{ until = 2020-01-01, price = { input = 7.00, "
        "output = 7.00 } }]"),
}  # fmt: skip
RULES: Final = """
price_when = [
    { service_tier = "priority", price = { input = 2.00, output = 4.00 } },
    { speed = "fast", price = { input = 6.00, output = 9.00 } },
    { input_above = 5000, price = { input = 1.00, output = 3.00, web_search = 20.00 } },
]
"""
RULED_KINDS: Final = {
    "ruled": Kind(("alpha",), 1, PATIENT, model_options=RULES),
    "ruled-messages": Kind(("alpha",), 1, PATIENT, ("messages",), RULES),
    "searching": Kind(
        ("alpha",), 1, PATIENT, ("messages",), 'allow = ["web_search"]\n' + RULES
    ),
    "open": Kind(("alpha",), 1, PATIENT, ("messages",), 'allow = ["code_execution"]'),
    "plain": Kind(("alpha",), 1, PATIENT),
    "large": Kind(("alpha",), 1, PATIENT),
    "plain-messages": Kind(("alpha",), 1, PATIENT, ("messages",)),
    "dear": Kind(
        ("alpha",), 1, PATIENT, model_options="price_when = [{ input_above = 1000, price = "
        "{ input = 1000.00, output = 1000.00 } }]\nmax_input_tokens = 200_000"
    ),
}  # fmt: skip
COST: Final = """
cost = { input = 0.10, output = 0.30 }
cost_when = [{ service_tier = "priority", cost = { input = 1, output = 3 } }]
price_when = [{ service_tier = "priority", price = { input = 2, output = 4 } }]
"""
COST_KINDS: Final = {
    "costly": Kind(("alpha",), 1, PATIENT, model_options=COST),
    "unknown": Kind(("alpha",), 1, PATIENT),
}
PATHS: Final = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
RATES: Final[dict[str, Fraction | int]] = {
    "input": 1, "cached": Fraction("0.10"), "written": Fraction("1.25"), "hour": 2, "output": 5,
}  # fmt: skip


def price_nano(*, searches: int = 0, more: Fraction | int = 0, **tokens: int) -> int:
    """Compute a charge in units, exactly, and round it up to a nano-unit once."""
    units = sum(Fraction(count) * RATES[name] / 10**6 for name, count in tokens.items())
    return ceil((units + Fraction(searches, 100) + more) * 10**9)


def ask(dialect: str, model: str, **fields: Any) -> dict[str, Any]:
    asks = {"chat": say, "messages": messages.ask, "responses": responses.ask}
    body: dict[str, Any] = asks[dialect](f"{model}/0", **fields)
    return body


async def post(stage: Stage, dialect: str, model: str, **fields: Any) -> Reply:
    body = ask(dialect, model, **fields)
    return await stage.gateway.post(PATHS[dialect], stage.key, body)


async def read_receipt(stage: Stage, reply: Reply) -> dict[str, Any]:
    told = await stage.gateway.ask("GET", f"/v1/receipts/{reply.request_id}", key=stage.key)
    assert told.status == 200
    receipt: dict[str, Any] = told.json
    return receipt


def play(stage: Stage, dialect: str, usage: Any, **extra: Any) -> None:
    """Let the provider reply in its dialect with this usage."""
    match dialect:
        case "chat":
            stage.alpha.play(json_reply(completion("Hi.", usage=usage, **extra)))
        case "messages":
            stage.alpha.play(json_reply(messages.make_message("Hi.", usage=usage) | extra))
        case _:
            stage.alpha.play(json_reply(responses.make_response("Hi.") | {"usage": usage} | extra))
