"""Functions of the base as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import ssl
from typing import Any

from gateway.base import tls
from gateway.base.progress import Steps


def describe_steps(seconds: int, told: list[Any]) -> str:
    """Tell of a step when it begins, and once more after some seconds."""
    now = [100.0]
    steps = Steps(lambda: now[0])
    steps("another")
    now[0] = 1000.0
    steps(told[0])
    now[0] += seconds
    steps(*told)
    words = steps.describe()
    now[0] += 1_000_000
    assert "left" not in steps.describe(), "it goes down while nothing is told"
    return words


def describe_tls(message: str, reason: str | None) -> str | None:
    """Find why TLS failed, also in what libraries make of the error."""
    inner = ssl.SSLCertVerificationError() if message else ssl.SSLError()
    if isinstance(inner, ssl.SSLCertVerificationError):
        inner.verify_message = message
    if reason:
        inner.reason = reason
    told = tls.describe_tls(inner)
    assert tls.describe_tls(ConnectionError("wrapped", OSError(inner))) == told
    return told
