"""Memory is given back while nothing is in flight."""

from __future__ import annotations

import asyncio
import os
import ssl

import pytest

from gateway.server import memory
from gateway.tasks import spawn


@pytest.mark.parametrize("is_idle", [True, False])
async def test_the_heap_is_given_back_while_idle(
    monkeypatch: pytest.MonkeyPatch, is_idle: bool
) -> None:
    monkeypatch.setattr(memory, "COLLECT_SECONDS", 0)
    trims: list[bool] = []
    monkeypatch.setattr(memory, "find_trim", lambda: lambda: trims.append(True))
    twice = asyncio.Event()
    looks: list[bool] = []

    def look() -> bool:
        looks.append(is_idle)
        if len(looks) > 1:
            twice.set()
        return is_idle

    task = spawn(memory.collect(look), name="garbage")
    await twice.wait()
    task.cancel()
    assert bool(trims) == is_idle


def test_certificates_are_skipped_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A context that is made later has them again."""
    monkeypatch.setenv("SSL_CERT_FILE", "/of/the/operator")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with memory.skip_certificates():
        assert ssl.create_default_context().get_ca_certs() == []
        assert os.environ["SSL_CERT_FILE"] == os.devnull
    assert os.environ["SSL_CERT_FILE"] == "/of/the/operator"
    assert "SSL_CERT_DIR" not in os.environ


def test_any_c_library_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.find_trim()()
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    memory.find_trim()()
