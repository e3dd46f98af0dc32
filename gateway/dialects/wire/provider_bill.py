"""The provider's bill in its replies: what it charges and its calls of tools, read, and what callers see of it.

Sources: the documentation of the vendors that the tables name.
"""

from __future__ import annotations

import re
from operator import is_not
from typing import Any, Final

from gateway.base.money import MILLION, NANO, WEB_SEARCH, name_tool, read_charged_nano
from gateway.base.usage import are_counts
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_object, maybe_splice
from gateway.dialects.wire.records import Json

_TICKS_PER_UNIT: Final = 10**10
"""xAI states its bill in these."""


def read_tool_calls(usage: Json) -> dict[str, int] | None:
    """Read the calls of the provider's tools by name, zeros included; None if not reported."""
    told: dict[str, int] = {}
    for holder in _TOOL_COUNTS.keys() & usage.keys():
        ending = _TOOL_COUNTS[holder]
        for name, value in get_object(usage, holder).items():
            count: Any = value
            if type(value) is dict:
                count = next((value[one] for one in _CALLS if value.get(one) is not None), None)
            if name.endswith(ending) and are_counts(count):
                tool = name_tool(name.removesuffix(ending))
                # Two members may count the same calls, so they are not added.
                told[tool] = max(told.get(tool, 0), count)
    queries: Any = usage.get(_QUERIES)
    if WEB_SEARCH not in told and are_counts(queries):
        told[WEB_SEARCH] = queries
    return told or None


_TOOL_COUNTS: Final = {
    "server_tool_use": "_requests",  # Anthropic, OpenRouter
    "server_tool_use_details": "_requests",  # OpenRouter
    "server_side_tool_usage_details": "_calls",  # xAI
    "tool_usage": "",  # OpenAI, Volcengine
    "tool_calls_details": "",  # Perplexity
    "prompt_tokens_details": "_requests",  # LiteLLM
    "plugins": "",  # Qwen, as is the next
    "x_tools": "",
    "connectors": "",  # Mistral
}
"""The members of a usage that count calls of tools, and how the tools' names end there."""
_QUERIES: Final = "num_search_queries"
"""Perplexity's count of searches."""
_CALLS: Final = ("num_requests", "count", "invocation")


def read_bill_nano(usage: Json) -> int | None:
    """Read the charge that the provider reports, in dollars; None if it reports none."""
    ticks: Any = usage.get("cost_in_usd_ticks")
    if are_counts(ticks):
        # Rounded up, so that no part of a bill is lost; one above a million is a broken report.
        return -(-ticks * NANO // _TICKS_PER_UNIT) if ticks <= MILLION * _TICKS_PER_UNIT else None
    cost = usage.get("cost")
    if type(cost) is dict:
        cost = cost.get("total_cost")  # Perplexity
    bill = read_charged_nano(usage.get("estimated_cost") if cost is None else cost)
    if bill is None or usage.get("is_byok") is not True:
        return bill
    # OpenRouter's own fee: the provider behind it bills the operator's key for the rest.
    behind = read_charged_nano(get_object(usage, "cost_details").get("upstream_inference_cost"))
    return None if behind is None else bill + behind


TELLS_MORE: Final = frozenset(
    {*_TOOL_COUNTS, _QUERIES, "cost_in_usd_ticks", "cost", "estimated_cost"}
)
"""Members of a usage that tell calls of tools or a bill; most usages have none."""


def hide_bill(told: Json, text: bytes) -> Json:
    """Return a reply, a chunk or an event without its provider's bill, which only operators may see.

    The same object if it has none; `text` are its bytes.
    """
    for word in _MAY_TELL:
        if word in text:
            shown: Json = _hide(told)
            return shown
    return told


def edit_model(text: bytes, reply: Json, ours: str) -> bytes:
    """Write a reply with our name of the model and without the bill, keeping its bytes if possible."""
    shown = hide_bill(reply, text)
    # Bytes are edited only if there is no bill to hide; otherwise the reply is written anew.
    model = reply.get("model") if shown is reply else None
    out = maybe_splice(text, "model", model, ours) if type(model) is str else None
    return out or dumps_lenient({**shown, "model": ours})


_MAY_TELL: Final = (b"cost", b"Cost", b"pric", b"Pric", b"byok", rb"\u00")
"""Every bill has one of these in its bytes; a letter of its name may be escaped."""
_TELLS: Final = re.compile(r"[Cc]ost|[Pp]ric|byok")
"""Names of members, such as `total_cost`, `marketCost`, `request_pricing`."""
_DEEP: Final = frozenset({"usage", "provider_metadata", "providerMetadata", "_hidden_params"})
"""Members in which only bills have such names, at any depth."""
_OUTER: Final = frozenset({"choices", "delta", "message", "response", "x_groq"})


def _hide(told: Any, *, deep: bool = False) -> Any:
    if type(told) is list:
        items = [_hide(one, deep=deep) for one in told]
        return items if any(map(is_not, items, told)) else told
    if type(told) is not dict:
        return told
    shown: Json = {}
    for name, value in told.items():
        if not _TELLS.search(name):
            within = deep or name in _DEEP
            shown[name] = _hide(value, deep=within) if within or name in _OUTER else value
    changed = len(shown) < len(told) or any(shown[name] is not told[name] for name in shown)
    return shown if changed else told
