"""The unit files: their settings for an installation, and systemd's own verification.

`units.txt` has the settings of each unit, and how they change with the installation and the
configuration: what differs from the unit of that kind above. They follow systemd.service(5),
systemd.exec(5), systemd.resource-control(5) and podman-systemd.unit(5). To write them anew, after a look at
what that would change:

    WRITE_UNITS=1 python -m pytest tests/extras/units/test_units.py && git diff tests/extras/units/units.txt
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from difflib import ndiff
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.config.records import Server
from gateway.extras.units.texts import Installation, make_container, make_service, make_socket
from gateway.extras.units.verbs import explain
from tests.extras.units.unit_files import PLACE, SERVER, STATE
from tests.support.rows import each_row, told_together
from tests.support.settings import SHIPPED

UNITS: Final = Path(__file__).with_name("units.txt")
DEPLOY: Final = SHIPPED.with_name("gateway") / "docs/deploy.md"
WORST_EXPOSURE: Final = 3.0
ANALYZE: Final = shutil.which("systemd-analyze")
needs_systemd: Final = pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze")


def change(place: dict[str, str | None]) -> Installation:
    """Return the installation with other paths; the owner is no path."""
    paths: dict[str, Any] = {
        name: value if name == "owner" or value is None else Path(value)
        for name, value in place.items()
    }
    return dataclasses.replace(PLACE, **paths)


def with_server(**changes: Any) -> Server:
    return dataclasses.replace(SERVER, **changes)


def make_unit(kind: str, place: dict[str, Any], server: dict[str, Any]) -> list[str]:
    """Return the lines of a unit without its comments, but for those of examples."""
    if kind == "service":
        text = make_service(change(place), with_server(**server))
    elif kind == "container":
        config = Path(place.get("config", "/home/keeper/100% mine/gateway.toml"))
        text = make_container(config, with_server(**server), has_database="database" not in place)
    else:
        text = make_socket([tuple(one) for one in place["addresses"]])
    return [line for line in text.splitlines() if re.match(r"[^#\s]|#\w+=", line)]


def test_units() -> None:
    """Each heading is a kind, and the changes of the installation and of `[server]` as JSON."""
    whole, plain, new = UNITS.read_text(encoding="utf-8"), dict[str, list[str]](), list[str]()
    with told_together() as row:
        for block in whole.split("== ")[1:]:
            heading, *lines = block.strip("\n").split("\n")
            kind, *changes = heading.split(" ", 1)
            place, server = json.loads(f"[{changes[0]}]") if changes else ({}, {})
            made = make_unit(kind, place, server)
            told = [one for one in ndiff(plain.get(kind, []), made) if one[0] in "+-"]
            told = told if plain.setdefault(kind, made) is not made else made
            new.append("".join(f"{line}\n" for line in (f"== {heading}", *told)))
            with row(heading):
                assert "WRITE_UNITS" in os.environ or told == lines
    if "WRITE_UNITS" in os.environ:
        UNITS.write_text("\n".join(new), encoding="utf-8")


@each_row("name", ["python", "environment", "package", "config", "folder", "database"])
@each_row(
    ("root", "setting"),
    [
        ("/home/ann", "ProtectHome=read-only"),
        ("/root", "ProtectHome=read-only"),
        ("/tmp/x", "PrivateTmp=no"),
    ],
)
def test_nothing_needed_is_hidden(name: str, root: str, setting: str) -> None:
    assert setting in make_unit("service", {name: f"{root}/one"}, {})


# ---- systemd's own opinion -----------------------------------------------------------------------


def analyze(*words: str) -> str:
    assert ANALYZE is not None
    done = subprocess.run([ANALYZE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def write_units(folder: Path, place: Installation, server: Server) -> list[str]:
    units = {
        "gateway.service": make_service(place, server),
        "gateway.socket": make_socket([("127.0.0.1", 8080), ("::", 8080)]),
    }
    for name, text in units.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return [str(folder / name) for name in units]


@needs_systemd
@pytest.mark.parametrize(
    ("place", "server"),
    [
        (PLACE, SERVER),
        (dataclasses.replace(PLACE, database=STATE, owner=""), SERVER),
        (dataclasses.replace(PLACE, database=None, owner=""), SERVER),
        (dataclasses.replace(PLACE, config=Path("/my 100%/g.toml")), with_server(port=443)),
        (dataclasses.replace(PLACE, folder=Path("/root")), SERVER),
    ],
)
def test_systemd_takes_the_units_and_calls_them_safe(
    tmp_path: Path, place: Installation, server: Server
) -> None:
    real = dataclasses.replace(place, python=Path(sys.executable))
    files = write_units(tmp_path, real, server)
    assert analyze("verify", "--man=no", *files) == ""
    told = analyze("security", "--offline=true", "--no-pager", files[0])
    found = re.search(r"Overall exposure level for gateway.service: ([0-9.]+)", told)
    assert found is not None
    assert float(found[1]) <= WORST_EXPOSURE


@needs_systemd
def test_systemd_would_say_what_is_wrong(tmp_path: Path) -> None:
    service, _ = write_units(tmp_path, PLACE, SERVER)
    text = Path(service).read_text(encoding="utf-8").replace("ProtectClock=", "ProtectClok=")
    Path(service).write_text(text, encoding="utf-8")
    assert ANALYZE is not None
    done = subprocess.run([ANALYZE, "verify", service], capture_output=True, text=True, check=False)
    assert "ProtectClok" in done.stderr


def test_the_documents_have_the_commands() -> None:
    told = DEPLOY.read_text(encoding="utf-8")
    for line in explain(PLACE).splitlines():
        if line.startswith("  sudo "):
            assert line.strip() in told
    assert ".venv/bin/gateway --config /etc/gateway/gateway.toml unit" in told


GENERATOR: Final = shutil.which(
    "podman-system-generator", path="/usr/lib/systemd/system-generators:/usr/libexec/podman"
)


@pytest.mark.skipif(GENERATOR is None, reason="there is no Podman with Quadlet")
def test_podman_understands_it(tmp_path: Path) -> None:
    assert GENERATOR is not None
    (tmp_path / "gateway.container").write_text(
        make_container(Path("/x/gateway.toml"), SERVER, has_database=True)
    )
    made = subprocess.run(
        [GENERATOR, "-user", "-dryrun"],
        env={**os.environ, "QUADLET_UNIT_DIRS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert "ExecStart=" in made.stdout
    assert "--read-only" in made.stdout
