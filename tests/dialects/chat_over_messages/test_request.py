"""Chat requests as messages requests: budgets for reasoning. `requests` has the mapping."""

from __future__ import annotations

import json

import pytest

from gateway.errors import BadRequest
from tests.dialects.chat_over_messages.kit import EXCHANGE, TARGET, read_request


def test_exchange_aims_at_the_messages_api() -> None:
    version = {"anthropic-version": "2023-06-01"}
    assert EXCHANGE.upstream.path == "/messages"
    assert EXCHANGE.upstream.auth_headers("secret") == {"x-api-key": "secret", **version}
    assert EXCHANGE.upstream.auth_headers("") == version


def test_request_that_cannot_be_written_is_refused() -> None:
    schema = json.loads('{"items":' * 300 + "{}" + "}" * 300)
    function = {"name": "f", "parameters": schema}
    request = read_request(tools=[{"type": "function", "function": function}])
    with pytest.raises(BadRequest, match="nested too deeply"):
        EXCHANGE.write_request(request, TARGET)
