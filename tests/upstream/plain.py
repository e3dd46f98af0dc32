"""Functions towards providers as functions of plain values, for `examples.txt`."""

from __future__ import annotations

from gateway.base import errors
from gateway.upstream.forwarder import HttpForwarder
from tests.support.records import make_provider
from tests.upstream.kit import EXCHANGE


def redact(said: str, *secrets: str) -> list[str | None]:
    """Return the message, field, code, cause and provider's code of an error that all say the same."""
    error = errors.BadRequest(said, param=said, code=said)
    error.cause = error.provider_code = said
    errors.redact(error, secrets)
    return [error.message, error.param, error.code, error.cause, error.provider_code]


def rename_model(said: str, old: str, new: str) -> str:
    error = errors.BadRequest(said)
    errors.rename_model(error, old, new)
    return error.message


def write_host(base_url: str) -> str:
    """Return the header Host of a request to a provider at this address."""
    forwarder = HttpForwarder(make_provider(base_url=base_url))
    head = forwarder._write_head(EXCHANGE.upstream, "/chat", forwarder.keys[0], {})
    forwarder.close()
    return head.decode().partition("Host: ")[2].partition("\r\n")[0]
