"""Find the entry of a route: the provider by the host of its address, the model by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

_DATE: Final = re.compile(r"[-@](?:20\d\d-\d\d-\d\d|20\d{6})$")
"""The date at the end of a model's name, as in `gpt-4o-2024-08-06` and `claude-haiku-4-5-20251001`."""


class Names(NamedTuple):
    """The names of a provider in the two formats."""

    genai: str
    litellm: str

    def pick(self, format_: str) -> str:
        """Return the name in the lists of a format."""
        return self.genai if format_ == "genai-prices" else self.litellm


HOSTS: Final = {
    "api.anthropic.com": Names("anthropic", "anthropic"),
    "api.cerebras.ai": Names("cerebras", "cerebras"),
    "api.cohere.com": Names("cohere", "cohere_chat"),
    "api.deepseek.com": Names("deepseek", "deepseek"),
    "api.fireworks.ai": Names("fireworks", "fireworks_ai"),
    "api.groq.com": Names("groq", "groq"),
    "api.mistral.ai": Names("mistral", "mistral"),
    "api.moonshot.ai": Names("moonshotai", "moonshot"),
    "api.novita.ai": Names("novita", "novita"),
    "api.openai.com": Names("openai", "openai"),
    "api.perplexity.ai": Names("perplexity", "perplexity"),
    "api.together.ai": Names("together", "together_ai"),
    "api.together.xyz": Names("together", "together_ai"),
    "api.x.ai": Names("x_ai", "xai"),
    "api.z.ai": Names("zai", "zai"),
    "generativelanguage.googleapis.com": Names("google", "gemini"),
    "openai.azure.com": Names("azure", "azure"),
    "openrouter.ai": Names("openrouter", "openrouter"),
    "services.ai.azure.com": Names("azure", "azure_ai"),
}
"""Providers by host; a host below one of these is the same provider."""


def find_names(base_url: str) -> Names | None:
    """Return the provider's names in the lists; None for a server that no list knows."""
    host = urlsplit(base_url).hostname or ""
    while host:
        if host in HOSTS:
            return HOSTS[host]
        host = host.partition(".")[2]
    return None


def find_name(names: Iterable[str], model: str) -> str | None:
    """Find a model's name: the same, else the one without its date, else the latest with one."""
    known = set(names)
    undated = _DATE.sub("", model)
    if model in known or undated in known:
        return model if model in known else undated
    dated = (name for name in known if name != undated and _DATE.sub("", name) == undated)
    return max(dated, default=None) if model == undated else None
