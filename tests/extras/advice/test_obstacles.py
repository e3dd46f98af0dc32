"""An obstacle between a user and a file is told with what to type."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from gateway.base.process import ExitCode
from gateway.config.load import load_config
from gateway.config.reader import ConfigError
from gateway.extras.advice.obstacles import find_obstacle
from tests.support.cli import Cli, make_cli

AM_ROOT: Final = os.geteuid() == 0
USER: Final = pwd.getpwnam("nobody") if AM_ROOT else pwd.getpwuid(os.geteuid())
"""The user who asks: to root nothing is forbidden."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder of the user who asks; pytest's own folders are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="gateway-test-"))
    os.chown(path, USER.pw_uid, USER.pw_gid)
    yield path
    path.chmod(0o700)
    shutil.rmtree(path)


def ask(path: Path, needs: int) -> str | None:
    """Run `find_obstacle` as another user."""
    before = os.geteuid()
    os.seteuid(USER.pw_uid)
    try:
        return find_obstacle(path, needs)
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("needs", [os.R_OK, os.W_OK])
def test_nothing_is_in_the_way_of_a_new_file_and_of_an_own_one(folder: Path, needs: int) -> None:
    assert ask(folder / "new", needs) is None
    own = folder / "own"
    own.touch(0o600)
    os.chown(own, USER.pw_uid, USER.pw_gid)
    assert ask(own, needs) is None


def test_a_file_of_another_user_is_said_to_be_theirs() -> None:
    assert ask(Path("/etc/shadow"), os.R_OK) == (
        f"it belongs to the user root, and this is {USER.pw_name};"
        " put `sudo` in front of the command"
    )


@pytest.mark.skipif(not AM_ROOT, reason="needs a second user")
def test_a_user_is_named_to_sudo(folder: Path) -> None:
    other = next(one for one in pwd.getpwall() if one.pw_uid not in (0, USER.pw_uid))
    os.chown(folder, other.pw_uid, -1)
    folder.chmod(0o700)
    assert ask(folder / "x", os.R_OK) == (
        f"the folder {folder} belongs to the user {other.pw_name}, and this is {USER.pw_name};"
        f" put `sudo -u {other.pw_name}` in front of the command"
    )
    folder.chmod(0o755)
    assert ask(folder / "x", os.R_OK) is None
    told = ask(folder / "x", os.W_OK)
    assert told is not None
    assert told.startswith(f"the folder {folder} belongs to the user {other.pw_name}")


@pytest.mark.skipif(not AM_ROOT, reason="needs a second user")
def test_what_a_command_of_root_left_is_given_back(folder: Path) -> None:
    (folder / "gateway.db").touch(0o600)
    assert ask(folder / "gateway.db", os.W_OK) == (
        f"it belongs to the user root, and this is {USER.pw_name};"
        f" type `sudo chown {USER.pw_name} {folder}/gateway.db`"
    )


def test_a_mode_that_forbids_it_is_said(folder: Path) -> None:
    own = folder / "a file"
    own.touch(0o400)
    os.chown(own, USER.pw_uid, USER.pw_gid)
    assert ask(own, os.R_OK) is None
    assert ask(own, os.W_OK) == f"it has a mode that forbids it; type `chmod u+rwX '{own}'`"
    folder.chmod(0o500)
    assert ask(folder / "new", os.W_OK) == (
        f"the folder {folder} has a mode that forbids it; type `chmod u+rwX {folder}`"
    )


def test_a_path_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    long, circle = "x" * 300, tmp_path / "circle"
    circle.symlink_to(circle)
    for path, needs in itertools.product(
        (tmp_path / long, tmp_path / long / "a"), (os.R_OK, os.W_OK)
    ):
        assert find_obstacle(path, needs) == "its name is too long; write a shorter one"
    for path, needs in itertools.product((circle, circle / "a"), (os.R_OK, os.W_OK)):
        told = "its symbolic links lead in a circle; name the file itself"
        assert find_obstacle(path, needs) == told
    assert find_obstacle(tmp_path / "~" / "a", os.R_OK) == (
        "~ stands for no home folder here; write the whole path"
    )


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    assert find_obstacle(tmp_path, os.R_OK) == "it is a folder; name a file in it"
    (tmp_path / "file").touch()
    assert (
        find_obstacle(tmp_path / "file" / "x", os.R_OK)
        == f"{tmp_path}/file is a file, not a folder"
    )
    os.mkfifo(tmp_path / "pipe")
    assert find_obstacle(tmp_path / "pipe", os.R_OK) is None, "a configuration may come from a pipe"
    assert find_obstacle(tmp_path / "pipe", os.W_OK) == "it is not an ordinary file; name another"


def test_a_read_only_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_only = os.statvfs_result((*[0] * 8, os.ST_RDONLY, 0))
    monkeypatch.setattr(os, "statvfs", lambda _: read_only)
    assert "mounted read-only" in (find_obstacle(tmp_path / "x", os.W_OK) or "")
    assert find_obstacle(tmp_path / "x", os.R_OK) is None


@contextmanager
def owned_by_nobody(capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """A command line of a user who is not root; pytest's own folders are closed to such."""
    nobody = pwd.getpwnam("nobody").pw_uid
    with tempfile.TemporaryDirectory() as folder:
        cli = make_cli(Path(folder), capsys)
        cli.done("account", "add", "alice")
        (cli.folder / "backups").mkdir(mode=0o300)
        for path in (cli.folder, *cli.folder.iterdir()):
            os.chown(path, nobody, -1)
        os.seteuid(nobody)
        try:
            yield cli
        finally:
            os.seteuid(0)


@pytest.mark.skipif(not AM_ROOT, reason="needs a second user")
def test_a_folder_that_keeps_a_user_out_is_told_with_what_to_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One that `backup` cannot list for what a killed one left; and one of somebody else."""
    with owned_by_nobody(capsys) as cli:
        target = cli.folder / "backups"
        closed = cli.run("backup", str(target / "copy.db"))
        others = cli.run("backup", "/etc/copy.db")
    assert closed.code == others.code == ExitCode.FAILED
    assert closed.err == (
        f"python -m gateway: {target}: the folder {target} has a mode that forbids it;"
        f" type `chmod u+rwX {target}`\n"
    )
    assert others.err == (
        "python -m gateway: /etc/copy.db: the folder /etc belongs to the user root, and this is nobody;"
        " put `sudo` in front of the command\n"
    )


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: it is a folder; name a file"):
        load_config(tmp_path, {})
