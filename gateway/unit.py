"""`unit`: the files by which systemd runs this installation. Text from values; no I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.addresses import join_address
from gateway.config import Server

NAME: Final = "gateway"
STATE_ROOT: Final = Path("/var/lib")
GRACE_SECONDS: Final = 15
"""What ending takes at most beyond `drain_seconds`."""
LEAST_STOP_SECONDS: Final = 90
PRIVILEGED_PORTS: Final = 1024
BACKLOG: Final = 4096
MIB_BASE: Final = 512
MIB_PER_REQUEST: Final = 0.75
"""The most that a caller who does not read his reply costs."""
MIB_PER_BODY_MIB: Final = 2
"""A body is there as bytes and, while it is checked, as what was read of it."""
MIB_STEP: Final = 256

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
# Netlink is how names are resolved: it tells which kinds of address this machine has.
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM"""

HIDDEN: Final = (
    ("PrivateTmp", ("/tmp", "/var/tmp"), "yes", "no"),  # noqa: S108 - named, not used
    ("ProtectHome", ("/home", "/root", "/run/user"), "yes", "read-only"),
)
"""A setting, the folders it hides, its value, and its value when something needed lies there."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where everything is; all paths absolute."""

    python: Path
    config: Path
    folder: Path
    """Where the process starts: there the package is found."""
    database: Path
    owner: str
    """Whose the database's folder is; "" when it is not there yet, or root's to give away."""


def make_service(place: Installation, server: Server) -> str:
    """gateway.service."""
    return "\n".join(
        [
            "[Unit]",
            "Description=LLM gateway",
            f"Wants=network-online.target {NAME}.socket",
            f"After=network-online.target {NAME}.socket",
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
    """gateway.socket, listening on these numeric addresses."""
    lines = [f"ListenStream={join_address(host, port)}" for host, port in addresses]
    if any(":" in host for host, _ in addresses):
        lines.append("BindIPv6Only=ipv6-only")
    return "\n".join(
        [
            "[Unit]",
            "Description=LLM gateway: its socket, open while the service restarts",
            "",
            "[Socket]",
            *lines,
            f"Backlog={BACKLOG}",
            "# The address may come up after the socket does.",
            "FreeBind=yes",
            "# While callers wait, each end of the service starts it again, also one that no start mends:",
            "# so often, and then callers are refused.",
            "TriggerLimitIntervalSec=60",
            "TriggerLimitBurst=20",
            "",
            "[Install]",
            "WantedBy=sockets.target",
        ]
    )


def _command(place: Installation) -> Iterator[str]:
    yield "Type=notify"
    arguments = ("-m", "gateway", "serve", "--config", str(place.config))
    command = [_quote(str(place.python)), *(_quote(one).replace("$", "$$") for one in arguments)]
    yield f"ExecStart={' '.join(command)}"
    yield f"WorkingDirectory={_escape(str(place.folder))}"
    yield "# A hang that the watchdog ends leaves its stack in the journal."
    yield "Environment=PYTHONFAULTHANDLER=1"
    yield "# Providers' keys: lines such as OPENAI_API_KEY=sk-..., in a file of root's (mode 0600) ..."
    yield f"EnvironmentFile=-{_escape(str(place.config.with_suffix('.env')))}"
    yield '# ... or a credential each, which gateway.toml names as "file:$CREDENTIALS_DIRECTORY/openai".'
    yield f"#LoadCredential=openai:{_escape(str(place.config.with_name('openai.key')))}"


def _life(server: Server) -> Iterator[str]:
    stop_seconds = max(LEAST_STOP_SECONDS, math.ceil(server.drain_seconds) + GRACE_SECONDS)
    yield "WatchdogSec=30"
    yield "TimeoutStartSec=300"
    yield f"TimeoutStopSec={stop_seconds}"
    yield "Restart=on-failure"
    yield "RestartSec=1"
    yield "# Books that do not add up, a configuration that cannot be used: no restart mends them."
    yield "RestartPreventExitStatus=3 78"


def _limits(server: Server) -> Iterator[str]:
    mib = (
        MIB_BASE + MIB_PER_REQUEST * server.max_in_flight + MIB_PER_BODY_MIB * server.max_bodies_mb
    )
    yield "LimitNOFILE=65536"
    yield "# A dump of the memory would have keys and prompts in it."
    yield "LimitCORE=0"
    yield f"MemoryMax={math.ceil(mib / MIB_STEP) * MIB_STEP}M"


def _rights(place: Installation, server: Server) -> Iterator[str]:
    state = _find_state_folder(place.database)
    if place.owner:
        yield f"User={place.owner}"
    else:
        yield "DynamicUser=yes" if state else "User=root"
    if state:
        yield f"StateDirectory={_quote(state)}"
        yield "StateDirectoryMode=0700"
    else:
        yield f"ReadWritePaths={_quote(str(place.database.parent))}"
    for setting, folders, usual, otherwise in HIDDEN:
        yield f"{setting}={otherwise if _needs_any(place, folders) else usual}"
    if 0 < server.port < PRIVILEGED_PORTS:
        yield "# For its port, where the socket unit is not used; it works in no user namespace."
        yield "CapabilityBoundingSet=CAP_NET_BIND_SERVICE"
        yield "AmbientCapabilities=CAP_NET_BIND_SERVICE"
    else:
        yield "CapabilityBoundingSet="
        yield "PrivateUsers=yes"


def _find_state_folder(database: Path) -> str:
    """The folder below /var/lib that is all the gateway's, as StateDirectory= has it; or ""."""
    if not database.is_relative_to(STATE_ROOT):
        return ""
    below = database.parent.relative_to(STATE_ROOT)
    return str(below) if below.parts else ""


def _needs_any(place: Installation, folders: Iterable[str]) -> bool:
    needed = (place.python, place.config, place.folder, place.database)
    return any(path.is_relative_to(folder) for path in needed for folder in folders)


def _quote(word: str) -> str:
    """One word of a list; quoted where it has to be."""
    escaped = _escape(word.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{escaped}"' if set(word) & set(" \t\"'\\;") else escaped


def _escape(value: str) -> str:
    """A whole value, in which systemd replaces nothing but specifiers."""
    return value.replace("%", "%%")
