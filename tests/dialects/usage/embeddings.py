"""Usage objects of providers that make embeddings."""

from __future__ import annotations

from typing import Final

from gateway.money import Tokens
from tests.dialects.usage import Shape

OBJECTS: Final = (
    Shape(
        "OpenAI",
        "openai-python, types/create_embedding_response.py",
        b'{"prompt_tokens":12,"total_tokens":12}',
        Tokens(12),
    ),
    Shape(
        "OpenRouter",
        "OpenRouter's OpenAPI document, /embeddings",
        b'{"prompt_tokens":8,"total_tokens":8,"cost":0.0001,"is_byok":false,'
        b'"prompt_tokens_details":{"text_tokens":2,"image_tokens":6}}',
        Tokens(8, media={"image_input": 6}),
        {},
        100_000,
    ),
    Shape(
        "Voyage",
        "voyageai-python, object/embeddings.py",
        b'{"total_tokens":12}',
        Tokens(12),
    ),
    Shape(
        "Perplexity",
        "perplexity-py, types/shared/embeddings_usage.py",
        b'{"prompt_tokens":8,"total_tokens":8,"cost":{"currency":"USD","total_cost":0.002}}',
        Tokens(8),
        {},
        2_000_000,
    ),
    Shape(
        "Mistral",
        "mistralai/client-python, models/usageinfo.py",
        b'{"prompt_tokens":8,"completion_tokens":0,"total_tokens":8,"prompt_audio_seconds":null}',
        Tokens(8),
    ),
    Shape(
        "Portkey, Google: no count",
        "Portkey-AI/gateway, providers/google/embed.ts",
        b'{"prompt_tokens":-1,"total_tokens":-1}',
        Tokens(7),
        estimated=True,
    ),
    Shape(
        "LM Studio: zeros",
        "lmstudio.ai, API reference: Embeddings",
        b'{"prompt_tokens":0,"total_tokens":0}',
        Tokens(7),
        estimated=True,
    ),
)
"""The input was estimated as 7 tokens."""
