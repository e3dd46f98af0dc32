"""Usage objects of messages providers, and of their streams."""

from __future__ import annotations

from typing import Final

from gateway.money import Tokens
from tests.dialects.usage import Shape

OBJECTS: Final = (
    Shape(
        "Anthropic",
        "anthropic-sdk-python, types/usage.py",
        b'{"input_tokens":9,"output_tokens":5,"cache_read_input_tokens":30,'
        b'"cache_creation_input_tokens":20,"cache_creation":{"ephemeral_5m_input_tokens":15,'
        b'"ephemeral_1h_input_tokens":5},"server_tool_use":{"web_search_requests":2,'
        b'"web_fetch_requests":1},"output_tokens_details":{"thinking_tokens":3},'
        b'"service_tier":"standard"}',
        Tokens(9, 30, 15, 5, 5),
        {"web_search": 2, "web_fetch": 1},
    ),
    Shape(
        "Anthropic, compaction: the figures beside its iterations leave it out",
        "vercel/ai, anthropic-compaction.1.json",
        b'{"input_tokens":682,"output_tokens":1320,"iterations":[{"type":"compaction",'
        b'"input_tokens":60385,"output_tokens":592},{"type":"message","input_tokens":682,'
        b'"output_tokens":1320}]}',
        Tokens(61067, output=1912),
    ),
    Shape(
        "OpenRouter",
        "OpenRouter's OpenAPI document, MessagesResult",
        b'{"input_tokens":9,"output_tokens":5,"cache_creation":null,"server_tool_use":null,'
        b'"cost":0.00123,"cost_details":{"upstream_inference_cost":0.001},"is_byok":false}',
        Tokens(9, output=5),
        {},
        1_230_000,
    ),
    Shape(
        "xAI",
        "docs.x.ai, Cost tracking",
        b'{"input_tokens":9,"output_tokens":5,"cost_in_usd_ticks":12345}',
        Tokens(9, output=5),
        {},
        1_235,
    ),
    Shape(
        "Half of it cannot be: no input",
        "BerriAI/litellm, streaming_iterator",
        b'{"input_tokens":0,"output_tokens":500}',
        Tokens(7, output=500),
        estimated=True,
    ),
    Shape(
        "Half of it cannot be: a negative output",
        "no known provider",
        b'{"input_tokens":90,"output_tokens":-5}',
        Tokens(90, output=1),
        estimated=True,
    ),
)
"""The caller was sent 4 bytes of text, and the input was estimated as 7 tokens."""


def stream(start: bytes, *deltas: bytes) -> bytes:
    """Write the events of a short text with these usages."""
    events = [
        b'{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",'
        b'"model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":%b}}' % start,
        b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Yes."}}',
        b'{"type":"content_block_stop","index":0}',
        *(
            b'{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
            b'"usage":%b}' % delta
            for delta in deltas
        ),
        b'{"type":"message_stop"}',
    ]
    return b"\n".join(events) + b"\n"


STREAMS: Final = (
    Shape(
        "Anthropic",
        "docs.anthropic.com, Streaming messages",
        stream(b'{"input_tokens":43,"output_tokens":1}', b'{"output_tokens":15}'),
        Tokens(43, output=15),
    ),
    Shape(
        "Anthropic, with its tools: the input is revised",
        "vercel/ai, anthropic-code-execution fixtures",
        stream(
            b'{"input_tokens":2,"cache_creation_input_tokens":3068,"cache_read_input_tokens":0,'
            b'"output_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":3068,'
            b'"ephemeral_1h_input_tokens":0}}',
            b'{"input_tokens":6,"cache_creation_input_tokens":3337,'
            b'"cache_read_input_tokens":6289,"output_tokens":198}',
        ),
        Tokens(6, 6289, 3337, 198),
    ),
    Shape(
        "Envoy AI Gateway: zeros replace no count",
        "envoyproxy/ai-gateway#1631, sgl-project/sglang#20830",
        stream(
            b'{"input_tokens":1000,"output_tokens":0}', b'{"input_tokens":0,"output_tokens":500}'
        ),
        Tokens(1000, output=500),
    ),
    Shape(
        "GLM, Vercel: the input comes at the end",
        "zai-org/GLM-5#139, vercel/ai#17326",
        stream(
            b'{"input_tokens":0,"output_tokens":0}',
            b'{"input_tokens":14,"output_tokens":30,"cache_read_input_tokens":6}',
        ),
        Tokens(14, 6, output=30),
    ),
    Shape(
        "The cached part in the first event alone",
        "reported by users of several proxies",
        stream(
            b'{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":0}',
            b'{"input_tokens":10,"cache_read_input_tokens":0,"output_tokens":5}',
        ),
        Tokens(10, 90, output=5),
    ),
    Shape(
        "Two ends",
        "anthropic-sdk-python: message_delta may come more than once",
        stream(
            b'{"input_tokens":10,"output_tokens":1}',
            b'{"output_tokens":5}',
            b'{"output_tokens":9,"server_tool_use":{"web_search_requests":1}}',
        ),
        Tokens(10, output=9),
        {"web_search": 1},
    ),
    Shape(
        "OpenRouter: the bill at the end",
        "OpenRouter's OpenAPI document",
        stream(
            b'{"input_tokens":10,"output_tokens":1,"cost":0}', b'{"output_tokens":5,"cost":0.5}'
        ),
        Tokens(10, output=5),
        {},
        500_000_000,
    ),
)
