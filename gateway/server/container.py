"""`unit --container`: make the text of a Quadlet unit, by which systemd runs a container. No I/O.

The keys are those of podman-systemd.unit(5), Podman 4.5 or newer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.config import Server
from gateway.exit_codes import ExitCode
from gateway.server.units import GRACE_SECONDS, NAME, find_stop_seconds

IMAGE: Final = f"localhost/{NAME}"
CONTAINER_CONFIG: Final = "/etc/gateway/gateway.toml"
"""The configuration within the container."""
CONTAINER_STATE: Final = Path("/var/lib/gateway")
"""The folder of the volume within the container."""
USER: Final = 10001
"""The user within the container: nobody else has this number, and it is not root's."""


_FILE: Final = "# The image and the configuration are read-only; the volume has the database."
_URL: Final = f"""\
# The image and the configuration are read-only; the first start leaves a key in the volume.
Environment=STATE_DIRECTORY={CONTAINER_STATE}
# If [storage] url is "env:DATABASE_URL": podman secret create database_url FILE
#Secret=database_url,type=env,target=DATABASE_URL"""


def make_container(config: Path, server: Server, *, has_database: bool = True) -> str:
    """Return the text of gateway.container, for a user's own systemd.

    `has_database`: whether the database is a file in the volume.
    """
    stop_seconds = find_stop_seconds(server)
    return f"""\
[Unit]
Description=LLM gateway
# Callers wait at the socket while the container restarts; Podman passes it on.
Requires={NAME}.socket
After={NAME}.socket

[Container]
Image={IMAGE}
ContainerName={NAME}
Exec=serve --config {CONTAINER_CONFIG}
{_FILE if has_database else _URL}
ReadOnly=true
Volume={_escape(config)}:{CONTAINER_CONFIG}:ro
Volume={NAME}:{CONTAINER_STATE}:U
# You are user {USER} in there, and nobody is root.
UserNS=keep-id:uid={USER},gid={USER}
User={USER}
DropCapability=all
NoNewPrivileges=true
# Providers' keys: podman secret create openai_api_key FILE
#Secret=openai_api_key,type=env,target=OPENAI_API_KEY
Notify=true
# Requests in flight have time to end.
PodmanArgs=--stop-timeout={stop_seconds}

{_make_service(stop_seconds)}"""


def _make_service(stop_seconds: int) -> str:
    """Return the sections that Quadlet copies into the service that it makes."""
    return f"""\
[Service]
ExecReload=podman exec {NAME} gateway --config {CONTAINER_CONFIG} reload
TimeoutStartSec=300
TimeoutStopSec={stop_seconds + GRACE_SECONDS}
Restart=on-failure
RestartSec=1
# A restart does not help if the books do not add up or the configuration is invalid.
RestartPreventExitStatus={ExitCode.AUDIT_MISMATCH} {ExitCode.CONFIG}

[Install]
WantedBy=default.target"""


def _escape(path: Path) -> str:
    """Escape the specifiers of systemd."""
    return str(path).replace("%", "%%")
