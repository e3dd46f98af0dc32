"""`unit`: make the text of the systemd units for this installation. No I/O."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.addresses import join_address
from gateway.config import Server
from gateway.exit_codes import ExitCode
from gateway.ledger import Refused

NAME: Final = "gateway"
STATE_ROOT: Final = Path("/var/lib")
GRACE_SECONDS: Final = 15
"""The longest that stopping takes beyond `drain_seconds`."""
MIN_STOP_SECONDS: Final = 90
"""The least time to stop, systemd's own default."""
PRIVILEGED_PORTS: Final = 1024
"""Ports below this need a capability."""
SOCKET_BACKLOG: Final = 4096
"""Connections that the kernel queues while the service restarts: some seconds of 1,000 each."""
MIB_BASE: Final = 512
"""Memory in MiB of the process and its caches: several times what it takes when idle."""
MIB_PER_REQUEST: Final = 0.75
"""Memory in MiB of a request, at most: that of a caller who does not read the reply."""
MIB_PER_BODY_MIB: Final = 2
"""Memory in MiB for each MiB of a body: its bytes and, while it is checked, its parsed values."""
MIB_STEP: Final = 256
"""The limit is rounded up to a multiple of this, so that small changes keep the unit."""

SANDBOX: Final = """\
NoNewPrivileges=yes
ProtectSystem=strict
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProcSubset=pid
RemoveIPC=yes
UMask=0077
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
# Name resolution needs Netlink, to see which address families this machine has.
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM"""

HIDDEN: Final = (
    ("PrivateTmp", ("/tmp", "/var/tmp"), "yes", "no"),  # noqa: S108 - named, not used
    ("ProtectHome", ("/home", "/root", "/run/user"), "yes", "read-only"),
)
"""Setting, folders it hides, usual value, and the value if a needed path is in one of them."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The absolute paths of an installation."""

    python: Path
    environment: Path
    """The virtual environment."""
    package: Path
    """The folder of the package `gateway`."""
    config: Path
    folder: Path
    """The working directory, from which Python finds the package."""
    database: Path | None
    """None with a database of PostgreSQL, which may be on another machine."""
    owner: str
    """The user who owns the folder of the database, or of the configuration if there is none.

    "" means root, or that the folder does not exist.
    """


def make_service(place: Installation, server: Server) -> str:
    """Return the text of gateway.service. Raises Refused for a service that would run as root."""
    return "\n".join(
        [
            "[Unit]",
            "Description=LLM gateway",
            f"Wants=network-online.target {NAME}.socket",
            *_order(place),
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            *_command(place),
            "",
            *_life(server),
            "",
            *_limits(server),
            "",
            *_rights(place, server),
            SANDBOX,
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
    )


def make_socket(addresses: Sequence[tuple[str, int]]) -> str:
    """Return the text of gateway.socket, which listens on these numeric addresses."""
    lines = [f"ListenStream={join_address(host, port)}" for host, port in addresses]
    if any(":" in host for host, _ in addresses):
        lines.append("BindIPv6Only=ipv6-only")
    return "\n".join(
        [
            "[Unit]",
            "Description=LLM gateway: the socket, which stays open while the service restarts",
            "",
            "[Socket]",
            *lines,
            f"Backlog={SOCKET_BACKLOG}",
            "# The address may not be configured yet when the socket is opened.",
            "FreeBind=yes",
            "# While callers wait, systemd starts the service again each time it ends, even if every",
            "# start fails. This limits the starts; after them callers are refused.",
            "TriggerLimitIntervalSec=60",
            "TriggerLimitBurst=20",
            "",
            "[Install]",
            "WantedBy=sockets.target",
        ]
    )


def _order(place: Installation) -> Iterator[str]:
    after = f"After=network-online.target {NAME}.socket"
    if place.database is None:
        yield "# PostgreSQL, if it runs on this machine, has to stop last: charges may be under way."
        after += " postgresql.service"
    yield after


def _command(place: Installation) -> Iterator[str]:
    yield "Type=notify"
    for setting, verb in (("ExecStart", "serve"), ("ExecReload", "reload")):
        arguments = ("-m", "gateway", verb, "--config", str(place.config))
        quoted = (_quote(one).replace("$", "$$") for one in arguments)
        yield f"{setting}={' '.join((_quote(str(place.python)), *quoted))}"
    yield f"WorkingDirectory={_escape(str(place.folder))}"
    yield "# If the watchdog ends a process that hangs, its stack is written to the journal."
    yield "Environment=PYTHONFAULTHANDLER=1"
    yield "# Providers' keys: lines such as OPENAI_API_KEY=sk-... in a file of root (mode 0600) ..."
    yield f"EnvironmentFile=-{_escape(str(find_variables(place)))}"
    yield '# ... or credentials, which gateway.toml names as "file:$CREDENTIALS_DIRECTORY/openai".'
    yield f"#LoadCredential=openai:{_escape(str(place.config.with_name('openai.key')))}"


def find_stop_seconds(server: Server) -> int:
    """Return the seconds that a stop may take."""
    return max(MIN_STOP_SECONDS, math.ceil(server.drain_seconds) + GRACE_SECONDS)


def _life(server: Server) -> Iterator[str]:
    yield "WatchdogSec=30"
    yield "TimeoutStartSec=300"
    yield f"TimeoutStopSec={find_stop_seconds(server)}"
    yield "Restart=on-failure"
    yield "RestartSec=1"
    yield "# A restart does not help if the books do not add up or the configuration is invalid."
    yield f"RestartPreventExitStatus={ExitCode.AUDIT_MISMATCH} {ExitCode.CONFIG}"


def _limits(server: Server) -> Iterator[str]:
    mib = (
        MIB_BASE + MIB_PER_REQUEST * server.max_in_flight + MIB_PER_BODY_MIB * server.max_bodies_mb
    )
    yield "LimitNOFILE=65536"
    yield "# A core dump would contain keys and prompts."
    yield "LimitCORE=0"
    yield f"MemoryMax={math.ceil(mib / MIB_STEP) * MIB_STEP}M"


def _rights(place: Installation, server: Server) -> Iterator[str]:
    yield from _user(place)
    yield "# What runs cannot be changed by what runs, even beside the database."
    fixed = [str(one) for one in (place.package, place.environment, place.config)]
    optional = f"-{find_variables(place)}"
    yield f"ReadOnlyPaths={' '.join(_quote(one) for one in (*fixed, optional))}"
    for setting, folders, usual, otherwise in HIDDEN:
        yield f"{setting}={otherwise if _needs_any(place, folders) else usual}"
    if 0 < server.port < PRIVILEGED_PORTS:
        yield "# The port needs this capability without the socket unit. It has no effect in a user"
        yield "# namespace, so PrivateUsers= is not set."
        yield "CapabilityBoundingSet=CAP_NET_BIND_SERVICE"
        yield "AmbientCapabilities=CAP_NET_BIND_SERVICE"
    else:
        yield "CapabilityBoundingSet="
        yield "PrivateUsers=yes"


def _user(place: Installation) -> Iterator[str]:
    """Yield the user, and the folder that the service may write."""
    if place.database is None:
        yield f"User={place.owner}" if place.owner else "DynamicUser=yes"
        yield "# The first start leaves a key there; nothing else is kept outside PostgreSQL."
        yield f"StateDirectory={NAME}"
        yield "StateDirectoryMode=0700"
        return
    state = _find_state_folder(place.database)
    if not place.owner and not state:
        folder = place.database.parent
        raise Refused(
            f"{folder} belongs to root, so the gateway would run as root. Give the folder to a user of"
            " its own (sudo useradd --system gateway; sudo chown -R gateway: "
            f"{shlex.quote(str(folder))}) or set [storage] path to {STATE_ROOT}/{NAME}/gateway.db."
            " Then print the unit again."
        )
    yield f"User={place.owner}" if place.owner else "DynamicUser=yes"
    if state:
        yield f"StateDirectory={_quote(state)}"
        yield "StateDirectoryMode=0700"
    else:
        yield f"ReadWritePaths={_quote(str(place.database.parent))}"


def find_variables(place: Installation) -> Path:
    """Return the file of environment variables, which need not exist."""
    return place.config.with_suffix(".env")


def _find_state_folder(database: Path) -> str:
    """Return the database's folder relative to /var/lib, for StateDirectory=; "" if not below it."""
    if not database.is_relative_to(STATE_ROOT):
        return ""
    below = database.parent.relative_to(STATE_ROOT)
    return str(below) if below.parts else ""


def _needs_any(place: Installation, folders: Iterable[str]) -> bool:
    needed = (
        *(place.python, place.environment, place.package),
        *(place.config, place.folder, place.database),
    )
    return any(path and path.is_relative_to(folder) for path in needed for folder in folders)


def _quote(word: str) -> str:
    """Escape one word of a list, and quote it if necessary."""
    escaped = _escape(word.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{escaped}"' if set(word) & set(" \t\"'\\;") else escaped


def _escape(value: str) -> str:
    """Escape a whole value: systemd replaces nothing in it but specifiers."""
    return value.replace("%", "%%")
