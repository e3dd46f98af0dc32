"""The SDKs of OpenAI and Anthropic as clients of a gateway."""

from __future__ import annotations

import ssl
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tests.support.process import GatewayProcess

if TYPE_CHECKING:  # to import them takes as long as fifty tests
    import anthropic
    import openai

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody: to read the authorities' certificates for each client took a third of the time."""


class Clients:
    """The real SDKs, changed only in base address and key; created on first use."""

    def __init__(self, gateway: GatewayProcess, key: str) -> None:
        self._gateway = gateway
        self._key = key

    @cached_property
    def chat(self) -> openai.AsyncOpenAI:
        import openai

        url = self._gateway.base_url
        http = openai.DefaultAsyncHttpxClient(verify=NO_TLS)
        return openai.AsyncOpenAI(base_url=url, api_key=self._key, max_retries=0, http_client=http)

    @cached_property
    def messages(self) -> anthropic.AsyncAnthropic:
        import anthropic

        url = self._gateway.root_url
        http = anthropic.DefaultAsyncHttpxClient(verify=NO_TLS)
        return anthropic.AsyncAnthropic(
            base_url=url, api_key=self._key, max_retries=0, http_client=http
        )

    async def close(self) -> None:
        for name in {"chat", "messages"} & vars(self).keys():
            await getattr(self, name).close()
