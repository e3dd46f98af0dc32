"""Usage objects of chat providers, and of their streams."""

from __future__ import annotations

from typing import Final

from gateway.money import Tokens
from tests.dialects.usage import Shape

OBJECTS: Final = (
    Shape(
        "OpenAI",
        "openai-python, types/completion_usage.py",
        b'{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,'
        b'"prompt_tokens_details":{"cached_tokens":1920,"cache_write_tokens":6,"audio_tokens":0},'
        b'"completion_tokens_details":{"reasoning_tokens":64,"rejected_prediction_tokens":3}}',
        Tokens(80, 1920, 6, 300),
    ),
    Shape(
        "OpenAI, audio in and out",
        "openai-python, types/completion_usage.py",
        b'{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,'
        b'"prompt_tokens_details":{"audio_tokens":60,"image_tokens":10,"text_tokens":30},'
        b'"completion_tokens_details":{"audio_tokens":40,"text_tokens":10}}',
        Tokens(100, output=50, media={"audio_input": 60, "image_input": 10, "audio_output": 40}),
    ),
    Shape(
        "Azure AI Foundry, DeepSeek",
        "vercel/ai, azure fixtures",
        b'{"prompt_tokens":19,"completion_tokens":1720,"total_tokens":1739,'
        b'"prompt_tokens_details":null,"reasoning_tokens":0}',
        Tokens(19, output=1720),
    ),
    Shape(
        "DeepSeek",
        "vercel/ai, deepseek fixtures",
        b'{"prompt_tokens":339,"completion_tokens":83,"total_tokens":422,'
        b'"prompt_tokens_details":{"cached_tokens":320},"prompt_cache_hit_tokens":320,'
        b'"prompt_cache_miss_tokens":19,"completion_tokens_details":{"reasoning_tokens":39}}',
        Tokens(19, 320, output=83),
    ),
    Shape(
        "Moonshot",
        "platform.kimi.ai, API reference: Chat",
        b'{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,"cached_tokens":12}',
        Tokens(7, 12, output=13),
    ),
    Shape(
        "Qwen, explicit cache",
        "vercel/ai, convert-alibaba-usage.ts; alibabacloud.com, Context cache",
        b'{"prompt_tokens":30000,"completion_tokens":10,"total_tokens":30010,'
        b'"prompt_tokens_details":{"cached_tokens":0,"cache_type":"ephemeral",'
        b'"cache_creation":{"ephemeral_5m_input_tokens":29713},'
        b'"cache_creation_input_tokens":29713}}',
        Tokens(287, 0, 29713, 10),
    ),
    Shape(
        "Qwen, written to the cache, told in one place",
        "reported by a user of the endpoint",
        b'{"prompt_tokens":600,"completion_tokens":1,"total_tokens":601,"prompt_tokens_details":'
        b'{"cache_creation":{"cache_creation_input_tokens":500,"cache_type":"ephemeral"}}}',
        Tokens(100, 0, 500, 1),
    ),
    Shape(
        "Qwen, searches",
        "alibabacloud.com, Web search",
        b'{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18,'
        b'"plugins":{"search":{"count":2,"strategy":"agent"}}}',
        Tokens(9, output=9),
        {"web_search": 2},
    ),
    Shape(
        "Mistral",
        "mistralai/client-python, models/usageinfo.py",
        b'{"prompt_tokens":171,"total_tokens":185,"completion_tokens":14,'
        b'"prompt_token_details":{"cached_tokens":128},"prompt_audio_seconds":null}',
        Tokens(43, 128, output=14),
    ),
    Shape(
        "Mistral, older",
        "mistralai/client-python, models/usageinfo.py",
        b'{"prompt_tokens":171,"total_tokens":185,"completion_tokens":14,"num_cached_tokens":128}',
        Tokens(43, 128, output=14),
    ),
    Shape(
        "Mistral, connectors",
        "mistralai/client-python, models/conversationusageinfo.py",
        b'{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10,'
        b'"connectors":{"web_search":1,"code_interpreter":2}}',
        Tokens(5, output=5),
        {"web_search": 1, "code_execution": 2},
    ),
    Shape(
        "xAI: reasoning beside the completion",
        "vercel/ai, xai-text.chunks.txt; docs.x.ai, Cost tracking",
        b'{"prompt_tokens":12,"completion_tokens":2,"total_tokens":354,'
        b'"prompt_tokens_details":{"text_tokens":12,"cached_tokens":11},'
        b'"completion_tokens_details":{"reasoning_tokens":340},"num_sources_used":0,'
        b'"cost_in_usd_ticks":1721255}',
        Tokens(1, 11, output=342),
        {},
        172_126,
    ),
    Shape(
        "Vertex AI's OpenAI-compatible endpoint",
        "a recorded reply",
        b'{"completion_tokens":566,"completion_tokens_details":{"reasoning_tokens":946},'
        b'"prompt_tokens":9,"total_tokens":1521,"extra_properties":{"google":{}}}',
        Tokens(9, output=1512),
    ),
    Shape(
        "DeepInfra, Gemini: reasoning neither in the completion nor in the total",
        "vercel/ai, deepinfra-chat-language-model.ts",
        b'{"prompt_tokens":10,"completion_tokens":84,"total_tokens":94,"estimated_cost":0.000342,'
        b'"completion_tokens_details":{"reasoning_tokens":1081},"prompt_tokens_details":null}',
        Tokens(10, output=1165),
        {},
        342_000,
    ),
    Shape(
        "OpenRouter",
        "OpenRouter's OpenAPI document, ChatUsage; Usage accounting",
        b'{"prompt_tokens":6814,"completion_tokens":2504,"total_tokens":9318,"cost":0.0334344,'
        b'"is_byok":false,"prompt_tokens_details":{"cached_tokens":128,"cache_write_tokens":64,'
        b'"video_tokens":0},"cost_details":{"upstream_inference_cost":0.0284344},'
        b'"server_tool_use_details":{"web_search_requests":2,"tool_calls_requested":2,'
        b'"tool_calls_executed":2}}',
        Tokens(6622, 128, 64, 2504),
        {"web_search": 2},
        33_434_400,
    ),
    Shape(
        "OpenRouter, the operator's own key",
        "openrouter.ai/docs, Usage accounting",
        b'{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20,"cost":0.95,"is_byok":true,'
        b'"cost_details":{"upstream_inference_cost":19}}',
        Tokens(10, output=10),
        {},
        19_950_000_000,
    ),
    Shape(
        "OpenRouter, older",
        "openrouter.ai/docs, Web search",
        b'{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,'
        b'"server_tool_use":{"web_search_requests":3}}',
        Tokens(1, output=1),
        {"web_search": 3},
    ),
    Shape(
        "Perplexity",
        "perplexity-py, types/shared/usage_info.py",
        b'{"prompt_tokens":33,"completion_tokens":395,"total_tokens":428,"citation_tokens":19028,'
        b'"num_search_queries":21,"search_context_size":"low",'
        b'"cost":{"input_tokens_cost":0.001,"total_cost":0.816}}',
        Tokens(33, output=395),
        {"web_search": 21},
        816_000_000,
    ),
    Shape(
        "A proxy of Bedrock: cache counts beside the prompt, inside the total",
        "reported by users of several proxies",
        b'{"prompt_tokens":368,"completion_tokens":19,"total_tokens":10923,'
        b'"cache_read_input_tokens":10536}',
        Tokens(368, 10536, output=19),
    ),
    Shape(
        "Portkey, Claude",
        "Portkey-AI/gateway, providers/anthropic/chatComplete.ts",
        b'{"prompt_tokens":400,"completion_tokens":20,"total_tokens":620,'
        b'"prompt_tokens_details":{"cached_tokens":150},"cache_read_input_tokens":150,'
        b'"cache_creation_input_tokens":50}',
        Tokens(400, 150, 50, 20),
    ),
    Shape(
        "LiteLLM, Claude: cache counts inside the prompt",
        "BerriAI/litellm, types/utils.py, Usage",
        b'{"prompt_tokens":400,"completion_tokens":20,"total_tokens":420,'
        b'"prompt_tokens_details":{"cached_tokens":150,"cache_creation_tokens":50},'
        b'"cache_read_input_tokens":150,"cache_creation_input_tokens":50}',
        Tokens(200, 150, 50, 20),
    ),
    Shape(
        "LiteLLM, Claude: what was read inside the prompt, what was written beside it",
        "BerriAI/litellm, issues about cache_creation_input_tokens",
        b'{"prompt_tokens":260,"completion_tokens":20,"total_tokens":280,'
        b'"prompt_tokens_details":{"cached_tokens":200},"cache_read_input_tokens":200,'
        b'"cache_creation_input_tokens":500}',
        Tokens(60, 200, 500, 20),
    ),
    Shape(
        "new-api, Claude: names of its own, and zeros under the other vendor's names",
        "QuantumNous/new-api, dto/openai_response.go, Usage",
        b'{"prompt_tokens":400,"completion_tokens":20,"total_tokens":420,"prompt_cache_hit_tokens":0,'
        b'"prompt_tokens_details":{"cached_tokens":150,"cached_creation_tokens":50,"text_tokens":0,'
        b'"audio_tokens":0,"image_tokens":0},"input_tokens":0,"output_tokens":0,'
        b'"input_tokens_details":null,"claude_cache_creation_5_m_tokens":30,'
        b'"claude_cache_creation_1_h_tokens":20}',
        Tokens(200, 150, 30, 20, 20),
    ),
    Shape(
        "vLLM",
        "vllm-project/vllm, entrypoints/openai/protocol.py, UsageInfo",
        b'{"prompt_tokens":19,"total_tokens":26,"completion_tokens":7,"prompt_tokens_details":null}',
        Tokens(19, output=7),
    ),
    Shape(
        "SGLang: reasoning within the completion",
        "sgl-project/sglang, entrypoints/openai/protocol.py, UsageInfo",
        b'{"prompt_tokens":19,"total_tokens":26,"completion_tokens":7,"reasoning_tokens":5,'
        b'"prompt_tokens_details":{"cached_tokens":16}}',
        Tokens(3, 16, output=7),
    ),
    Shape(
        "Together",
        "docs.together.ai, API reference: UsageData",
        b'{"prompt_tokens":19,"total_tokens":26,"completion_tokens":7,"cached_tokens":16}',
        Tokens(3, 16, output=7),
    ),
    Shape(
        "Vercel's gateway",
        "vercel.com/docs, AI Gateway: usage",
        b'{"prompt_tokens":19,"total_tokens":26,"completion_tokens":7,"cost":0.0025,'
        b'"market_cost":0.003,"is_byok":false,"cache_creation_input_tokens":4,'
        b'"prompt_tokens_details":{"cached_tokens":5}}',
        Tokens(10, 5, 4, 7),
        {},
        2_500_000,
    ),
    Shape(
        "Claude, written for an hour",
        "openrouter.ai/docs, Prompt caching",
        b'{"prompt_tokens":400,"completion_tokens":20,"total_tokens":420,'
        b'"cache_creation_input_tokens":300,'
        b'"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200}}',
        Tokens(100, 0, 100, 20, 200),
    ),
    Shape(
        "Cached more than was sent: beside it, even without a total",
        "vercel/ai, convert-xai-chat-usage.ts guards against it",
        b'{"prompt_tokens":5,"completion_tokens":24,"prompt_tokens_details":{"cached_tokens":368}}',
        Tokens(5, 368, output=24),
    ),
    Shape(
        "The names of the Responses API",
        "reported by users of several proxies",
        b'{"input_tokens":9,"output_tokens":4,"total_tokens":13,'
        b'"input_tokens_details":{"cached_tokens":3}}',
        Tokens(6, 3, output=4),
    ),
    Shape(
        "Only a total beside the prompt",
        "reported by users of MiniMax",
        b'{"prompt_tokens":26,"total_tokens":249}',
        Tokens(26, output=223),
    ),
    Shape(
        "SambaNova: figures of time among the counts",
        "a recorded reply",
        b'{"completion_tokens":51,"prompt_tokens":10,"total_tokens":61,"end_time":1746852567.7,'
        b'"is_last_response":true,"stop_reason":"stop","acceptance_rate":5}',
        Tokens(10, output=51),
    ),
    Shape(
        "Half of it cannot be: no prompt",
        "reported by users of several proxies",
        b'{"prompt_tokens":0,"completion_tokens":500,"total_tokens":500}',
        Tokens(7, output=500),
        estimated=True,
    ),
    Shape(
        "Half of it cannot be: a negative count",
        "Portkey-AI/gateway, providers/google/embed.ts",
        b'{"prompt_tokens":-1,"completion_tokens":500,"total_tokens":-1}',
        Tokens(7, output=500),
        estimated=True,
    ),
    Shape(
        "Half of it cannot be: a text as completion",
        "no known provider",
        b'{"prompt_tokens":90,"completion_tokens":"12","total_tokens":null}',
        Tokens(90, output=1),
        estimated=True,
    ),
)
"""The caller was sent 4 bytes of text, and the input was estimated as 7 tokens."""

TEXT: Final = (
    b'{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"Yes."},"finish_reason":null}]}\n'
)
_END: Final = (
    b'{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{},"finish_reason":"stop"'
)
STREAMS: Final = (
    Shape(
        "OpenAI: null in each chunk, then a chunk of its own",
        "platform.openai.com, API reference: stream_options",
        TEXT.replace(b"]}\n", b'],"usage":null}\n')
        + _END
        + b'}],"usage":null}\n'
        + b'{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[],'
        b'"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}\n',
        Tokens(9, output=5),
    ),
    Shape(
        "Kimi: in the choice",
        "vercel/ai, moonshotai fixtures",
        TEXT + _END + b',"usage":{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,'
        b'"cached_tokens":12}}]}\n',
        Tokens(7, 12, output=13),
    ),
    Shape(
        "Kimi: in the choice, and once more behind it",
        "vercel/ai, moonshotai fixtures",
        TEXT
        + _END
        + b',"usage":{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32}}]}\n'
        + b'{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[],'
        b'"usage":{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32}}\n',
        Tokens(19, output=13),
    ),
    Shape(
        "Groq: in a member of its own, and beside it",
        "groq-python, types/chat/chat_completion_chunk.py",
        TEXT + _END + b'}],"x_groq":{"id":"req_1","usage":{"prompt_tokens":4,"completion_tokens":2,'
        b'"total_tokens":6}},"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}\n',
        Tokens(4, output=2),
    ),
    Shape(
        "Groq: in a member of its own alone",
        "groq-python, types/chat/chat_completion_chunk.py",
        TEXT
        + _END
        + b'}],"x_groq":{"id":"req_1","usage":{"prompt_tokens":4,"completion_tokens":2}}}\n',
        Tokens(4, output=2),
    ),
    Shape(
        "Perplexity: cumulative in each chunk",
        "vercel/ai, perplexity-citations.chunks.txt",
        TEXT.replace(b"]}\n", b'],"usage":{"prompt_tokens":5,"completion_tokens":1}}\n')
        + _END
        + b'}],"usage":{"prompt_tokens":5,"completion_tokens":8,"total_tokens":13}}\n',
        Tokens(5, output=8),
    ),
    Shape(
        "Empty details behind full ones",
        "reported by users of several proxies",
        TEXT.replace(
            b"]}\n",
            b'],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,'
            b'"prompt_tokens_details":{"cached_tokens":6}}}\n',
        )
        + _END
        + b'}],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13,'
        b'"prompt_tokens_details":{}}}\n',
        Tokens(3, 6, output=4),
    ),
    Shape(
        "Zeros behind counts",
        "reported by users of MiniMax",
        TEXT.replace(
            b"]}\n", b'],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}\n'
        )
        + _END
        + b'}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}\n',
        Tokens(9, output=4),
    ),
)
