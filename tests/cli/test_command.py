"""One command: exit codes, configuration, who asks, broken streams; and the verbs for the process."""

from __future__ import annotations

import errno
import io
import os
import pwd
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from gateway import __main__, extension
from gateway.base.process import PROGRAM, ExitCode, describe_version
from gateway.cli import main
from gateway.ledger.opening import open_books
from gateway.ledger.versions import VERSION
from tests import ROOT
from tests.support.books import read_events
from tests.support.cli import Cli
from tests.support.rows import each_row

# ---- exit codes ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_installed_wheel_writes_its_configuration_and_serves_by_it(tmp_path: Path) -> None:
    source, site, empty = tmp_path / "source", tmp_path / "site", tmp_path / "empty"
    for folder in (source, empty):
        folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "gateway.toml"):
        shutil.copy(ROOT / name, source)
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gateway", source / "gateway", symlinks=True, ignore=skip)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, str(source)], check=True)
    shutil.rmtree(source)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        program = [str(site / "bin" / "gateway"), *words]
        environ = {"PYTHONPATH": str(site), "PATH": str(site / "bin")}
        return subprocess.run(
            program, cwd=empty, env=environ, capture_output=True, text=True, check=False
        )

    missing = run("check")
    assert (missing.returncode, "or write one: gateway init\n" in missing.stderr) == (78, True)
    assert "  gateway check " in run("init").stderr
    assert (empty / "gateway.toml").read_bytes() == (ROOT / "gateway.toml").read_bytes()
    assert run("check").returncode == 0


def test_the_configuration_is_found_by_option_variable_or_folder(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.done("account", "add", "alice")
    here, elsewhere = str(cli.config), {"GATEWAY_CONFIG": "/nonexistent/g.toml"}
    assert cli.run("account", "list", environ={"GATEWAY_CONFIG": here}).code == 0
    assert cli.run("--config", here, "account", "list", environ=elsewhere).code == 0
    assert cli.run("account", "list", "--config", here, environ=elsewhere).code == 0
    monkeypatch.chdir(cli.folder)
    assert cli.run("account", "list", environ={}).code == 0
    assert cli.run("account", "list", environ={"GATEWAY_CONFIG": ""}).code == 0


def test_an_extra_that_lacks_another_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody deleted the folder of an extra, but not of those that import it."""
    till, shop = "till", "shop"
    extras = {shop: extension.Extra(needs=(till,)), "desk": extension.Extra(needs=(shop,))}
    monkeypatch.setattr(extension, "find_extras", lambda: extras)
    answer = cli.run("check")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        f'{PROGRAM}: the extra "{shop}" needs the extra "{till}", which is not in this installation: put'
        f" gateway/extras/{till} back, or delete gateway/extras/{shop}, too\n"
    )


def test_the_version_is_shown_without_a_configuration(cli: Cli) -> None:
    cli.config.unlink()
    answer = cli.done("--version")
    assert (answer.out, answer.err) == (f"gateway {describe_version(VERSION)}\n", "")


def test_only_what_serves_needs_the_keys_of_providers(cli: Cli) -> None:
    """The configuration names a systemd credential, which an operator's shell does not have."""
    assert cli.run("account", "add", "alice").code == 0
    assert cli.run("check").code == 78


# ---- streams -------------------------------------------------------------------------------------


def test_a_terminal_without_unicode_loses_no_answer(
    cli: Cli, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.add_key(alice)
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main(["key", "list"], {"GATEWAY_CONFIG": str(cli.config)}) == 0
    assert rb"sk-ru-\u2026" in written.getvalue()


@each_row("words", [["account", "list"], ["--help"]])
def test_a_reader_that_left_is_no_traceback(cli: Cli, alice: str, words: Sequence[str]) -> None:
    assert alice
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        answer = cli.run(*words)
    assert (answer.code, answer.err) == (1, "")


def test_a_full_disk_behind_stdout_is_no_traceback(cli: Cli, alice: str) -> None:
    """The id of a key that could not be printed is known, so the key can be revoked."""
    with Path("/dev/full").open("w") as full, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", full)
        answer = cli.run("key", "add", alice)
    assert answer.code == 1
    assert re.fullmatch(
        r"Key key_\w+ of account alice, shown this once:\n"
        r"python -m gateway: No space left on device\n",
        answer.err,
    )


@each_row(("is_full", "reason"), [(True, "No space left on device"), (False, "stdout is closed")])
@each_row("words", [["--version"], ["--help"], ["key", "--help"], ["key", "list"]])
def test_what_cannot_be_written_is_no_success(
    cli: Cli, alice: str, is_full: bool, reason: str, words: Sequence[str]
) -> None:
    """Python itself has no stdout if a shell closed it, as by `>&-`."""
    assert alice
    out, err = Path("/dev/full").open("w"), io.StringIO()  # noqa: SIM115 - closed below, as it fails
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out if is_full else None)
        patch.setattr("sys.stderr", err)
        patch.setattr("sys.argv", ["gateway", *words])
        patch.setenv("GATEWAY_CONFIG", str(cli.config))
        assert __main__.main() == ExitCode.FAILED
        assert err.getvalue().startswith(f"python -m gateway: {reason}\n")
        sys.stdout.close()
    with suppress(OSError):
        out.close()


def test_a_file_that_has_no_room_is_not_left_half_written(cli: Cli) -> None:
    """The next try would find it and refuse to overwrite it."""
    new, before = cli.folder / "new.toml", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        answer = cli.run("init", str(new))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert answer.err == f"python -m gateway: {new}: cannot be written: File too large\n"
    assert (answer.code, new.exists()) == (ExitCode.FAILED, False)
    cli.done("init", str(new))


@each_row("number", [errno.EMFILE, errno.ENOSPC, errno.EIO])
def test_an_error_that_no_path_explains_keeps_the_systems_words(cli: Cli, number: int) -> None:
    """The path is a folder, which would be told to whoever names one where a file belongs."""

    def fail(_: object) -> None:
        raise OSError(number, os.strerror(number), str(cli.folder))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.cli.command.parse", fail)
        answer = cli.run("check")
    assert answer.err == f"python -m gateway: {cli.folder}: {os.strerror(number)}\n"


def test_ctrl_c_during_the_imports_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    importing = ModuleType("gateway.cli")
    monkeypatch.setattr(importing, "__getattr__", interrupt, raising=False)
    monkeypatch.setitem(sys.modules, "gateway.cli", importing)
    assert __main__.main() == ExitCode.INTERRUPTED


@pytest.mark.slow
@pytest.mark.usefixtures("signals")
def test_ctrl_c_is_no_traceback(cli: Cli) -> None:
    """The configuration is a pipe that never ends, so the command waits until the signal comes."""
    cli.config.unlink()
    os.mkfifo(cli.config)
    command = [sys.executable, "-m", "gateway", "account", "list", "--config", str(cli.config)]
    # The pipe opens once the command reads it.
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process,
        cli.config.open("w"),
    ):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, "")


@pytest.mark.slow
def test_a_verb_that_does_not_serve_imports_little(cli: Cli, alice: str) -> None:
    """Neither the web server nor the dialects: they take most of the time of a start."""
    look = "import sys; from gateway.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    for words in (("--help",), ("key", "list", alice), ("check",)):
        command = [sys.executable, "-c", look, *words]
        environ = os.environ | {"GATEWAY_CONFIG": str(cli.config)}
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environ, check=True
        )
        found = set(done.stdout.splitlines()[-1].split())
        assert not found & {"aiohttp", "gateway.dialects.exchanges", "gateway.server.serve"}
        assert words == ("check",) or not found & {"asyncio", "ssl"}


# ---- who asks ------------------------------------------------------------------------------------

ME = pwd.getpwuid(os.getuid()).pw_name


def test_events_name_the_user(cli: Cli) -> None:
    environ = {"GATEWAY_CONFIG": str(cli.config), "SUDO_USER": "alice"}
    assert cli.run("account", "add", "bo", environ=environ).code == 0
    assert cli.run("key", "add", "bo").code == 0
    with open_books(cli.database) as books:
        events = read_events(books, 9)
    assert [(event.actor, event.action) for event in events] == [
        (f"cli ({ME})", "key.add"),
        ("cli (alice via sudo)", "account.add"),
    ]
