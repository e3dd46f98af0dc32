"""Claude at Google: Anthropic's API on Vertex AI, for providers with `dialect = "vertex"`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from gateway.dialects.formats import Formats
from gateway.dialects.messages.upstream import MessagesUpstream
from gateway.dialects.wire.base import Upstream
from gateway.dialects.wire.records import Json, Target

VERTEX_VERSION: Final = "vertex-2023-10-16"
"""The API version for Vertex AI, sent in the body. There is only this version."""


class VertexUpstream(MessagesUpstream):
    """Anthropic's API at paths that name the model and whether the reply is a stream."""

    path = ""
    """A fixed path, for requests that name the model in the body; "" computes the path from the model."""
    passed_headers = ("anthropic-beta",)
    models_path = ""

    def find_path(self, upstream_model: str, *, stream: bool) -> str:
        way = "streamRawPredict" if stream else "rawPredict"
        return self.path or f"/models/{quote(upstream_model, safe='@')}:{way}"

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        return Upstream.auth_headers(self, api_key)

    def ask(self, body: Json, target: Target) -> Json:
        asked = {**super().ask(body, target), "anthropic_version": VERTEX_VERSION}
        if not self.path:
            del asked["model"]
        return asked


class VertexCountUpstream(VertexUpstream):
    """The path that counts tokens. The model is named in the body."""

    path = "/models/count-tokens:rawPredict"
    is_free = True


FORMATS: Final = Formats(upstreams={"vertex": VertexUpstream()})
