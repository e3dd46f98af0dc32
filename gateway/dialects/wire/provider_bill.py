"""The provider's bill in a usage: what it charges, and its calls of tools.

Sources: the documentation of the vendors that the tables name.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.base.money import MILLION, NANO, WEB_SEARCH, name_tool, read_charged_nano
from gateway.base.usage import are_counts
from gateway.dialects.wire.jsonbytes import get_object
from gateway.dialects.wire.records import Json

_TICKS_PER_UNIT: Final = 10**10
"""xAI states its bill in ticks, of which a dollar has this many."""


def read_tool_calls(usage: Json) -> dict[str, int] | None:
    """Read the calls of the provider's tools by name, zeros included; None if not reported."""
    calls: dict[str, int] = {}
    for holder in _TOOL_COUNTS.keys() & usage.keys():
        ending = _TOOL_COUNTS[holder]
        for name, value in get_object(usage, holder).items():
            count: Any = value
            if type(value) is dict:
                count = next((value[one] for one in _CALLS if value.get(one) is not None), None)
            if name.endswith(ending) and are_counts(count):
                tool = name_tool(name.removesuffix(ending))
                # Two members may count the same calls, so they are not added.
                calls[tool] = max(calls.get(tool, 0), count)
    queries: Any = usage.get(_QUERIES)
    if WEB_SEARCH not in calls and are_counts(queries):
        calls[WEB_SEARCH] = queries
    return calls or None


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
"""The members of a usage that count calls of tools, and the suffix of the tools' names in each."""
_QUERIES: Final = "num_search_queries"
"""Perplexity's count of searches."""
_CALLS: Final = ("num_requests", "count", "invocation")


def read_bill_nano(usage: Json) -> int | None:
    """Read the charge that the provider reports, in dollars; None if it reports none."""
    ticks: Any = usage.get("cost_in_usd_ticks")
    if are_counts(ticks):
        # Rounded up, so that no part of a bill is lost. A bill above a million is a broken report.
        return -(-ticks * NANO // _TICKS_PER_UNIT) if ticks <= MILLION * _TICKS_PER_UNIT else None
    cost = usage.get("cost")
    if type(cost) is dict:
        cost = cost.get("total_cost")  # Perplexity
    bill = read_charged_nano(usage.get("estimated_cost") if cost is None else cost)
    if bill is None or usage.get("is_byok") is not True:
        return bill
    # With the operator's own key (BYOK), `cost` is only OpenRouter's fee. The provider behind bills the rest.
    behind = read_charged_nano(get_object(usage, "cost_details").get("upstream_inference_cost"))
    return None if behind is None else bill + behind


TELLS_MORE: Final = frozenset(
    {*_TOOL_COUNTS, _QUERIES, "cost_in_usd_ticks", "cost", "estimated_cost"}
)
"""Members of a usage that tell calls of tools or a bill; most usages have none."""
