"""The version is that of the package; an obstacle between a user and a file is told with what to type."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest

from gateway.base import process
from gateway.base.process import READ, UNKNOWN, WRITE, find_obstacle
from tests import ROOT

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


@pytest.mark.parametrize("needs", [READ, WRITE])
def test_nothing_is_in_the_way_of_a_new_file_and_of_an_own_one(folder: Path, needs: int) -> None:
    assert ask(folder / "new", needs) is None
    own = folder / "own"
    own.touch(0o600)
    os.chown(own, USER.pw_uid, USER.pw_gid)
    assert ask(own, needs) is None


def test_a_file_of_another_user_is_said_to_be_theirs() -> None:
    assert ask(Path("/etc/shadow"), READ) == (
        f"it belongs to the user root, and this is {USER.pw_name};"
        " put `sudo` in front of the command"
    )


@pytest.mark.skipif(not AM_ROOT, reason="needs a second user")
def test_a_user_is_named_to_sudo(folder: Path) -> None:
    other = next(one for one in pwd.getpwall() if one.pw_uid not in (0, USER.pw_uid))
    os.chown(folder, other.pw_uid, -1)
    folder.chmod(0o700)
    assert ask(folder / "x", READ) == (
        f"the folder {folder} belongs to the user {other.pw_name}, and this is {USER.pw_name};"
        f" put `sudo -u {other.pw_name}` in front of the command"
    )
    folder.chmod(0o755)
    assert ask(folder / "x", READ) is None
    told = ask(folder / "x", WRITE)
    assert told is not None
    assert told.startswith(f"the folder {folder} belongs to the user {other.pw_name}")


@pytest.mark.skipif(not AM_ROOT, reason="needs a second user")
def test_what_a_command_of_root_left_is_given_back(folder: Path) -> None:
    (folder / "gateway.db").touch(0o600)
    assert ask(folder / "gateway.db", WRITE) == (
        f"it belongs to the user root, and this is {USER.pw_name};"
        f" type `sudo chown {USER.pw_name} {folder}/gateway.db`"
    )


def test_a_mode_that_forbids_it_is_said(folder: Path) -> None:
    own = folder / "a file"
    own.touch(0o400)
    os.chown(own, USER.pw_uid, USER.pw_gid)
    assert ask(own, READ) is None
    assert ask(own, WRITE) == f"it has a mode that forbids it; type `chmod u+rwX '{own}'`"
    folder.chmod(0o500)
    assert ask(folder / "new", WRITE) == (
        f"the folder {folder} has a mode that forbids it; type `chmod u+rwX {folder}`"
    )


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    assert find_obstacle(tmp_path / "a" / "b" / "c", READ) == (
        f"the folder {tmp_path}/a does not exist; type `mkdir -p {tmp_path}/a/b`"
    )


def test_a_path_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    long, circle = "x" * 300, tmp_path / "circle"
    circle.symlink_to(circle)
    for path, needs in itertools.product((tmp_path / long, tmp_path / long / "a"), (READ, WRITE)):
        assert find_obstacle(path, needs) == "its name is too long; write a shorter one"
    for path, needs in itertools.product((circle, circle / "a"), (READ, WRITE)):
        told = "its symbolic links lead in a circle; name the file itself"
        assert find_obstacle(path, needs) == told
    assert find_obstacle(tmp_path / "~" / "a", READ) == (
        "~ stands for no home folder here; write the whole path"
    )


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    assert find_obstacle(tmp_path, READ) == "it is a folder; name a file in it"
    (tmp_path / "file").touch()
    assert (
        find_obstacle(tmp_path / "file" / "x", READ) == f"{tmp_path}/file is a file, not a folder"
    )
    os.mkfifo(tmp_path / "pipe")
    assert find_obstacle(tmp_path / "pipe", READ) is None, "a configuration may come from a pipe"
    assert find_obstacle(tmp_path / "pipe", WRITE) == "it is not an ordinary file; name another"


def test_a_read_only_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_only = os.statvfs_result((*[0] * 8, os.ST_RDONLY, 0))
    monkeypatch.setattr(os, "statvfs", lambda _: read_only)
    assert "mounted read-only" in (find_obstacle(tmp_path / "x", WRITE) or "")
    assert find_obstacle(tmp_path / "x", READ) is None


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert process.find_installed()[0] in {project["version"], UNKNOWN}

    def find_none(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", find_none)
    assert process.find_installed()[0] == UNKNOWN
