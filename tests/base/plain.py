"""Functions of the base as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import ssl
import tempfile
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from gateway.base import process, tls
from gateway.base.progress import Steps

COMMIT: Final = "c1e1c2536f0123456789abcdef0123456789abcd"


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


def find_commit(files: dict[str, str]) -> str:
    """Find the commit of a package among these files, or `pip`, what pip wrote down; `COMMIT` is in them."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("COMMIT", COMMIT), encoding="utf-8")
        pip = files.get("pip", "").replace("COMMIT", COMMIT) or None
        patch.setattr(process, "__file__", f"{folder}/gateway/base/process.py")
        installed = SimpleNamespace(version="1", read_text=lambda _: pip)
        patch.setattr(metadata, "distribution", lambda _: installed)
        return process.find_installed()[1].replace(COMMIT[:10], "COMMIT")
