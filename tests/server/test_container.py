"""The unit of a container: what it may do, and Podman's own reading of it where it is installed."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from gateway.server.container import make_container
from gateway.server.units import GRACE_SECONDS, MIN_STOP_SECONDS
from tests.server.unit_files import SERVER, read_unit

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
