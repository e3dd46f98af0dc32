"""Usage objects of Responses providers: the response around `usage`, as some is told beside it."""

from __future__ import annotations

from typing import Final

from gateway.money import Tokens
from tests.dialects.usage import Shape

RESPONSES: Final = (
    Shape(
        "OpenAI",
        "openai-python, types/responses/response_usage.py",
        b'{"usage":{"input_tokens":631,"input_tokens_details":{"cached_tokens":600,'
        b'"cache_write_tokens":20},"output_tokens":87,"output_tokens_details":'
        b'{"reasoning_tokens":37},"total_tokens":718}}',
        Tokens(11, 600, 20, 87),
    ),
    Shape(
        "OpenAI: searches are counted beside the usage; opening a page is free",
        "vercel/ai, openai fixtures",
        b'{"output":[{"id":"ws_1","type":"web_search_call","status":"completed","action":'
        b'{"type":"search"}},{"id":"ws_2","type":"web_search_call","status":"completed","action":'
        b'{"type":"open_page"}}],"usage":{"input_tokens":9,"output_tokens":4,"total_tokens":13},'
        b'"tool_usage":{"image_gen":{"input_tokens":0},"web_search":{"num_requests":1}}}',
        Tokens(9, output=4),
        {"web_search": 1},
    ),
    Shape(
        "OpenAI: other tools are counted by their items",
        "openai-python, types/responses",
        b'{"output":[{"id":"fs_1","type":"file_search_call","status":"completed"},'
        b'{"id":"fs_2","type":"file_search_call","status":"completed"},'
        b'{"id":"ci_1","type":"code_interpreter_call","status":"completed"},'
        b'{"id":"fc_1","type":"function_call","call_id":"c","name":"f","arguments":"{}"}],'
        b'"usage":{"input_tokens":9,"output_tokens":4,"total_tokens":13}}',
        Tokens(9, output=4),
        {"file_search": 2, "code_execution": 1},
    ),
    Shape(
        "xAI",
        "docs.x.ai, Tool usage details",
        b'{"usage":{"input_tokens":9212,"input_tokens_details":{"cached_tokens":3072},'
        b'"output_tokens":3417,"output_tokens_details":{"reasoning_tokens":0},'
        b'"total_tokens":12629,"num_server_side_tools_used":6,"cost_in_usd_ticks":318319000,'
        b'"server_side_tool_usage_details":{"web_search_calls":0,"x_search_calls":3,'
        b'"code_interpreter_calls":1,"x_posts_fetched":0}}}',
        Tokens(6140, 3072, output=3417),
        {"x_search": 3, "code_execution": 1},
        31_831_900,
    ),
    Shape(
        "OpenRouter",
        "OpenRouter's OpenAPI document, OpenAIResponsesUsage",
        b'{"usage":{"input_tokens":9,"output_tokens":4,"total_tokens":13,"cost":0.25,'
        b'"is_byok":false,"cost_details":{"upstream_inference_cost":0.2},'
        b'"server_tool_use_details":{"web_search_requests":1}}}',
        Tokens(9, output=4),
        {"web_search": 1},
        250_000_000,
    ),
    Shape(
        "Qwen: writes to the cache are told turn by turn",
        "alibabacloud.com, Context cache",
        b'{"usage":{"input_tokens":1524,"input_tokens_details":{"cached_tokens":1305},'
        b'"output_tokens":1534,"total_tokens":3058,"x_details":[{"input_tokens":1524,'
        b'"prompt_tokens_details":{"cache_creation_input_tokens":213,"cached_tokens":1305}}],'
        b'"x_tools":{"web_search":{"count":1},"web_extractor":{"count":2}}}}',
        Tokens(6, 1305, 213, 1534),
        {"web_search": 1, "web_extractor": 2},
    ),
    Shape(
        "Qwen: the writes of two turns",
        "alibabacloud.com, Context cache",
        b'{"usage":{"input_tokens":1524,"input_tokens_details":{"cached_tokens":1000},'
        b'"output_tokens":34,"total_tokens":1558,"x_details":[{"prompt_tokens_details":'
        b'{"cache_creation_input_tokens":213}},{"prompt_tokens_details":'
        b'{"cache_creation_input_tokens":87}},{"prompt_tokens_details":null},"?"]}}',
        Tokens(224, 1000, 300, 34),
    ),
    Shape(
        "OpenAI: a shell in the vendor's container; what failed is not charged",
        "openai-python, types/responses/response_function_shell_tool_call_output.py",
        b'{"output":[{"id":"sh_1","type":"shell_call","status":"completed","call_id":"c","action":'
        b'{"commands":["ls"]}},{"id":"sho_1","type":"shell_call_output","call_id":"c","status":'
        b'"completed","output":[]},{"id":"fs_1","type":"file_search_call","status":"failed"}],'
        b'"usage":{"input_tokens":9,"output_tokens":4,"total_tokens":13}}',
        Tokens(9, output=4),
        {"shell": 1},
    ),
    Shape(
        "Volcengine Ark",
        "volcengine-python-sdk, types/responses/tool_usage.py",
        b'{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":1,"audio_tokens":4},'
        b'"output_tokens":4,"total_tokens":13,"tool_usage":{"web_search":1,"mcp":0}}}',
        Tokens(8, 1, output=4, media={"audio_input": 4}),
        {"web_search": 1},
    ),
    Shape(
        "Perplexity",
        "perplexity-py, types/responses_usage.py",
        b'{"usage":{"input_tokens":100,"output_tokens":4,"total_tokens":104,'
        b'"input_tokens_details":{"cache_creation_input_tokens":20,"cache_read_input_tokens":30},'
        b'"tool_calls_details":{"web_search":{"invocation":3}},'
        b'"cost":{"currency":"USD","total_cost":0.01}}}',
        Tokens(50, 30, 20, 4),
        {"web_search": 3},
        10_000_000,
    ),
    Shape(
        "Half of it cannot be: no input",
        "no known provider",
        b'{"usage":{"input_tokens":0,"output_tokens":500,"total_tokens":500}}',
        Tokens(7, output=500),
        estimated=True,
    ),
)
"""The caller was sent 4 bytes of text, and the input was estimated as 7 tokens."""
