"""The unit files: their settings for an installation, and systemd's own verification."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.cli.process import explain
from gateway.config.records import Server
from gateway.server.systemd import (
    GRACE_SECONDS,
    MIN_STOP_SECONDS,
    Installation,
    make_container,
    make_service,
    make_socket,
)
from tests.server.unit_files import PLACE, SERVER, STATE, read_unit
from tests.support.rows import each_row
from tests.support.settings import SHIPPED

DEPLOY: Final = SHIPPED.with_name("gateway") / "docs/deploy.md"
WORST_EXPOSURE: Final = 3.0
ANALYZE: Final = shutil.which("systemd-analyze")
needs_systemd: Final = pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze")


def service_of(changes: Mapping[str, Any] | None = None, **server: Any) -> dict[str, list[str]]:
    place = dataclasses.replace(PLACE, **(changes or {}))
    return read_unit(make_service(place, with_server(**server)))


def with_server(**changes: Any) -> Server:
    return dataclasses.replace(SERVER, **changes)


def test_the_service_notifies_is_watched_restarts_and_is_confined() -> None:
    """The settings follow systemd.service(5), systemd.exec(5) and systemd.resource-control(5)."""
    unit = service_of()
    for name, value in {
        "Type": "notify",
        "ExecStart": "/opt/gateway/.venv/bin/python -m gateway serve"
        " --config /etc/gateway/gateway.toml",
        "ExecReload": "/opt/gateway/.venv/bin/python -m gateway reload"
        " --config /etc/gateway/gateway.toml",
        "WorkingDirectory": "/opt/gateway",
        "EnvironmentFile": "-/etc/gateway/gateway.env",
        "User": "keeper",
        "ReadWritePaths": "/srv/books",
        "ReadOnlyPaths": "/opt/gateway/gateway /opt/gateway/.venv /etc/gateway/gateway.toml"
        " -/etc/gateway/gateway.env",
        "WatchdogSec": "30",
        "TimeoutStopSec": "90",
        "Restart": "on-failure",
        "RestartPreventExitStatus": "3 78",
        "LimitNOFILE": "65536",
        "MemoryMax": "1792M",
        "ProtectSystem": "strict",
        "NoNewPrivileges": "yes",
        "PrivateTmp": "yes",
        "ProtectHome": "yes",
        "CapabilityBoundingSet": "",
    }.items():
        assert unit[name] == [value], name
    assert unit["SystemCallFilter"][0] == "@system-service"
    assert "StateDirectory" not in unit
    assert "#LoadCredential=openai:/etc/gateway/openai.key" in make_service(PLACE, SERVER)


@each_row(("drain_seconds", "stop_seconds"), [(0, "90"), (30, "90"), (75.5, "91"), (600, "615")])
def test_stopping_may_take_as_long_as_the_drain(drain_seconds: float, stop_seconds: str) -> None:
    assert service_of(drain_seconds=drain_seconds)["TimeoutStopSec"] == [stop_seconds]


def test_memory_suffices_for_what_is_admitted() -> None:
    assert service_of(max_in_flight=10_000, max_bodies_mb=1024)["MemoryMax"] == ["10240M"]


@each_row(
    ("changes", "said"),
    [
        ({"database": STATE}, {"StateDirectory": "gateway", "User": "keeper"}),
        ({"database": STATE, "owner": ""}, {"StateDirectory": "gateway", "DynamicUser": "yes"}),
        ({"database": Path("/var/lib/a/b/g.db")}, {"StateDirectory": "a/b"}),
        ({"database": Path("/var/lib/g.db")}, {"ReadWritePaths": "/var/lib"}),
        ({"database": Path("/my books/g.db")}, {"ReadWritePaths": '"/my books"'}),
    ],
)
def test_the_database_can_be_written(changes: dict[str, object], said: dict[str, str]) -> None:
    unit = service_of(changes)
    for name, value in said.items():
        assert unit[name] == [value]
    assert ("StateDirectory" in unit) != ("ReadWritePaths" in unit)
    assert ("User" in unit) != ("DynamicUser" in unit)


@each_row(("owner", "user"), [("", {"DynamicUser": ["yes"]}), ("keeper", {"User": ["keeper"]})])
def test_a_database_elsewhere_needs_no_folder(owner: str, user: dict[str, list[str]]) -> None:
    """Only the first start writes a file; nothing has to be owned by anybody."""
    unit = service_of({"database": None, "owner": owner})
    assert {name: unit[name] for name in ("User", "DynamicUser") if name in unit} == user
    assert "ReadWritePaths" not in unit
    assert (unit["StateDirectory"], unit["StateDirectoryMode"]) == (["gateway"], ["0700"])
    assert unit["ReadOnlyPaths"] == service_of()["ReadOnlyPaths"]
    assert unit["After"] == ["network-online.target gateway.socket postgresql.service"]
    assert unit["Wants"] == service_of()["Wants"] == ["network-online.target gateway.socket"]
    assert service_of()["After"] == ["network-online.target gateway.socket"]
    assert (unit["ProtectHome"], unit["PrivateTmp"]) == (["yes"], ["yes"])


@each_row("name", ["python", "environment", "package", "config", "folder", "database"])
@each_row(
    ("root", "setting", "value"),
    [
        ("/home/ann", "ProtectHome", "read-only"),
        ("/root", "ProtectHome", "read-only"),
        ("/tmp/x", "PrivateTmp", "no"),
    ],
)
def test_nothing_needed_is_hidden(name: str, root: str, setting: str, value: str) -> None:
    assert service_of({name: Path(root, "one")})[setting] == [value]


def test_a_low_port_needs_one_capability() -> None:
    unit = service_of(port=443)
    assert unit["AmbientCapabilities"] == unit["CapabilityBoundingSet"] == ["CAP_NET_BIND_SERVICE"]
    assert "PrivateUsers" not in unit


def test_what_systemd_would_replace_is_escaped() -> None:
    unit = service_of(
        {
            "config": Path("/my 100%/$HOME/it's.toml"),
            "folder": Path("/my 100%"),
            "database": Path("/my 100%/g.db"),
        }
    )
    assert unit["ExecStart"][0].endswith(' --config "/my 100%%/$$HOME/it\'s.toml"')
    assert unit["WorkingDirectory"] == ["/my 100%%"]
    assert unit["ReadOnlyPaths"][0].endswith(
        """ "/my 100%%/$HOME/it's.toml" "-/my 100%%/$HOME/it's.env\""""
    )
    assert unit["ReadWritePaths"] == ['"/my 100%%"']


def test_the_socket_queues_where_the_gateway_would_listen() -> None:
    unit = read_unit(make_socket([("127.0.0.1", 8080), ("::1", 8080)]))
    assert unit["ListenStream"] == ["127.0.0.1:8080", "[::1]:8080"]
    assert unit["BindIPv6Only"] == ["ipv6-only"]
    assert unit["Backlog"] == ["4096"]
    assert "BindIPv6Only" not in read_unit(make_socket([("0.0.0.0", 80)]))


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


CONFIG: Final = Path("/home/keeper/100% mine/gateway.toml")
GENERATOR: Final = shutil.which(
    "podman-system-generator", path="/usr/lib/systemd/system-generators:/usr/libexec/podman"
)


def test_nothing_but_the_volume_can_be_written() -> None:
    """The settings follow podman-systemd.unit(5)."""
    unit = read_unit(make_container(CONFIG, SERVER))
    assert unit["ReadOnly"] == ["true"]
    assert unit["Volume"] == [
        "/home/keeper/100%% mine/gateway.toml:/etc/gateway/gateway.toml:ro",
        "gateway:/var/lib/gateway:U",
    ]
    assert unit["DropCapability"] == ["all"]
    assert unit["NoNewPrivileges"] == ["true"]
    assert unit["User"] == ["10001"], "not root"
    assert unit["UserNS"] == ["keep-id:uid=10001,gid=10001"]
    assert "Secret" not in unit, "an example, as a comment"


def test_with_a_database_elsewhere_the_volume_has_the_first_key() -> None:
    text = make_container(CONFIG, SERVER, has_database=False)
    unit = read_unit(text)
    assert unit.pop("Environment") == ["STATE_DIRECTORY=/var/lib/gateway"]
    assert unit == read_unit(make_container(CONFIG, SERVER))
    assert "the volume has the database" not in text
    assert "#Secret=database_url,type=env,target=DATABASE_URL" in text


def test_requests_in_flight_have_time_to_end() -> None:
    """Podman kills what has not ended by its time, systemd a while later."""
    for drain_seconds in (0, 600):
        server = dataclasses.replace(SERVER, drain_seconds=drain_seconds)
        unit = read_unit(make_container(CONFIG, server))
        seconds = max(MIN_STOP_SECONDS, drain_seconds + GRACE_SECONDS)
        assert unit["PodmanArgs"] == [f"--stop-timeout={seconds}"]
        assert int(unit["TimeoutStopSec"][0]) > seconds


def test_it_is_ready_when_the_gateway_says_so_and_keeps_the_socket() -> None:
    unit = read_unit(make_container(CONFIG, SERVER))
    assert (unit["Notify"], unit["Requires"]) == (["true"], ["gateway.socket"])
    assert unit["RestartPreventExitStatus"] == ["3 78"]


def test_a_reload_runs_the_verb_where_the_configuration_is() -> None:
    unit = read_unit(make_container(CONFIG, SERVER))
    verb = "gateway --config /etc/gateway/gateway.toml reload"
    assert unit["ExecReload"] == [f"podman exec gateway {verb}"]
    assert unit["ContainerName"] == ["gateway"]


@pytest.mark.skipif(GENERATOR is None, reason="there is no Podman with Quadlet")
def test_podman_understands_it(tmp_path: Path) -> None:
    assert GENERATOR is not None
    (tmp_path / "gateway.container").write_text(make_container(Path("/x/gateway.toml"), SERVER))
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
