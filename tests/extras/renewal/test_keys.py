"""Keys that a command prints, or that are in a file which changes."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Final
from unittest.mock import Mock

import pytest

from gateway.base.turns import spawn
from gateway.config.records import KeySource
from gateway.extras.commands.running import pick_variables, run_command
from gateway.extras.renewal.keys import KeyFile, Renewal, fetch_key, read_output
from gateway.upstream.keys import ProviderKey
from tests.support.waiting import until

# ---- commands ------------------------------------------------------------------------------------


KEY: Final = "ya29.a-token-of-an-hour"


def test_an_end_without_an_offset_is_local_time() -> None:
    """Older versions of `az` print nothing else."""
    output = b'{"accessToken": "ya29.key", "expiresOn": "2023-11-14 22:13:20.000000"}'
    local = time.mktime((2023, 11, 14, 22, 13, 20, 0, 0, -1))
    assert read_output(output, 0.0) == ("ya29.key", local)


async def test_a_command_is_run_in_the_folder_of_the_file_and_by_no_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(f"{KEY}\n")
    source = KeySource("command:", ("cat", "token"), tmp_path, 60)
    assert await fetch_key(source) == (KEY, None)
    assert await run_command(["echo", "$HOME", ";"], limit_seconds=30, max_output=9) == b"$HOME ;\n"
    # Nor does it see what it does not need: the gateway's variables have its secrets.
    passed = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "https_proxy", "NO_PROXY", "SSL_CERT_FILE"]
    usual = {*pick_variables(os.environ, ())} - {*passed}
    for name in (*passed, "OPENAI_API_KEY", "STRIPE_SECRET_KEY", "XPATH", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, os.environ["PATH"])
    env = await run_command(["env"], limit_seconds=30, max_output=1 << 16)
    assert {one.partition("=")[0] for one in env.decode().splitlines()} - usual == {*passed}
    asks = replace(source, command=("sh", "-c", 'echo "$AZURE_$CLOUDSDK_CONFIG"'))
    monkeypatch.setenv("CLOUDSDK_CONFIG", KEY)
    assert await fetch_key(replace(asks, variables=("CLOUDSDK_CONFIG",))) == (KEY, None)
    with pytest.raises(ValueError, match="no key"):
        await fetch_key(asks)


# ---- files ---------------------------------------------------------------------------------------


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first-secret\n")
    read = KeyFile(KeySource("file:key", (), tmp_path, 0)).read
    assert [read(), read()] == ["first-secret", None]
    path.write_text("other-secret\n")  # as long
    os.utime(path, ns=(1, 1))
    assert [read(), read()] == ["other-secret", None]


def test_a_link_that_is_replaced_is_followed(tmp_path: Path) -> None:
    """Kubernetes swaps a link to a folder: neither the name nor the file behind it changes."""
    for number in (1, 2):
        (tmp_path / f"..data-{number}").mkdir()
        (tmp_path / f"..data-{number}/key").write_text(f"secret-{number}")
        os.utime(tmp_path / f"..data-{number}/key", ns=(1, 1))
    (tmp_path / "..data").symlink_to("..data-1")
    (tmp_path / "key").symlink_to("..data/key")
    read = KeyFile(KeySource("file:key", (), tmp_path, 0)).read
    assert read() == "secret-1"
    (tmp_path / "new").symlink_to("..data-2")
    (tmp_path / "new").rename(tmp_path / "..data")
    assert read() == "secret-2"


@pytest.mark.parametrize(("content", "words"), [(None, "cannot be read"), ("", "one word")])
def test_a_file_without_a_key_is_looked_at_again(
    tmp_path: Path, content: str | None, words: str
) -> None:
    path = tmp_path / "key"
    path.write_text("first-secret")
    read = KeyFile(KeySource("file:key", (), tmp_path, 0)).read
    read()
    path.unlink()
    if content is not None:
        path.write_text(content)
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            read()
    path.write_text("second-secret")
    assert read() == "second-secret"


async def test_a_machine_without_threads_does_not_end_renewals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(KEY)
    key = ProviderKey("", KeySource("file:key", (), tmp_path, 0))
    renewal = Renewal("mistral", key, KeySource("file:key", (), tmp_path, 0))

    def is_renewed() -> bool:
        renewal.renew_early("")  # its next look at the file would be seconds away
        return key.secret == KEY

    with monkeypatch.context() as without:
        without.setattr(Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        task = spawn(renewal.run(), name="renewal")
        await until(lambda: bool(key.problem), "a problem")
    await until(is_renewed, "the key")
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
