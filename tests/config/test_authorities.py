"""Authorities that a file names are trusted beside the system's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.base.errors import UpstreamError
from gateway.config.records import Provider
from gateway.upstream.forwarder import HttpForwarder
from tests.support.settings import OPENAI, load, refusal
from tests.support.tls import LEAF, MIDDLE, ROOT, serve_tls

WORDS = "# Firmenroot Zürich\n"


def read_provider(folder: Path, url: str, server: str | None, own: str | None) -> Provider:
    """Read a provider from a file in which the server's and its own `ca_file` have these contents."""
    lines = ["[server]", OPENAI.replace("https://api.openai.com", url)]
    for number, content in enumerate((server, own)):
        if content is not None:
            (folder / f"{number}.pem").write_text(content)
            lines[number] += f'\nca_file = "{number}.pem"\n'
    return load(folder, "\n".join(lines)).providers["openai"]


async def connect(provider: Provider) -> bool:
    """Return whether the provider is trusted as one that requests go to."""
    forwarder = HttpForwarder(provider)
    try:
        (await forwarder._pool.connect()).close()
    except UpstreamError:
        return False
    finally:
        forwarder.close()
    return True


@pytest.mark.parametrize(
    ("server", "own", "is_trusted"),
    [
        (None, None, False),
        (None, ROOT, True),
        (ROOT, None, True),
        # The files are read again, and either may have it.
        (ROOT.replace("-----BEGIN", "words\n-----BEGIN"), WORDS + MIDDLE, True),
        (MIDDLE, LEAF, True),
        (LEAF, None, True),
    ],
)
async def test_a_file_of_authorities_is_trusted(
    tmp_path: Path, server: str | None, own: str | None, *, is_trusted: bool
) -> None:
    async with serve_tls() as url:
        assert await connect(read_provider(tmp_path, url, server, own)) is is_trusted


def test_other_certificates_in_a_file_are_a_change_to_a_reload(tmp_path: Path) -> None:
    first, second = (read_provider(tmp_path, "https://a.test", one, None) for one in (ROOT, LEAF))
    assert first != second
    assert "BEGIN" not in repr(first)


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """A start would wait until somebody writes to it."""
    os.mkfifo(tmp_path / "pipe")
    told = refusal(tmp_path, '[server]\nca_file = "pipe"\n')
    assert "ca_file: must be an ordinary file, and pipe is a pipe" in told
