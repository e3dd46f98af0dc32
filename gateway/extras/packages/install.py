"""The command that installs what an extra needs, by how this gateway was installed.

It never asks an index for a package `gateway`, which may be a stranger's.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib import metadata

_EXTRA: Final = re.compile(r"""(.*?)\s*;\s*extra\s*==\s*["']([^"']+)["']\s*""")
_CONTAINER_FILES: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))
_SOURCE: Final = Path(__file__).absolute().parents[3]
"""The folder with the package, which in a clone has pyproject.toml."""


def tell_install(
    extra: str,
    found: metadata.Distribution | None = None,
    prefix: str = sys.prefix,
    container: Sequence[Path] = _CONTAINER_FILES,
) -> str:
    """Say how to install what an extra of pyproject.toml needs, such as `cards`."""
    found = found or _find_distribution()
    environment, python = Path(prefix), shlex.quote(sys.executable)
    needs = " ".join(shlex.quote(one) for one in find_needs(extra, found))
    edited, source = (False, "") if found is None else _find_source(found)
    if not edited and any(one.exists() for one in container):
        return f"add `RUN pip install --no-cache-dir {needs}` to the Containerfile and build again"
    if (environment / "pipx_metadata.json").exists():
        return f"type `pipx inject {shlex.quote(environment.name)} {needs}`"
    if (environment / "uv-receipt.toml").exists() and source:
        at = f"{'--editable ' * edited}{shlex.quote(source)}"
        return f"type `uv tool install --force --with {needs} {at}`"
    by_uv = found is not None and (found.read_text("INSTALLER") or "").strip() == "uv"
    edit = f"-e {shlex.quote(f'{source}[{extra}]')}"
    command = f"uv pip install --python {python}" if by_uv else f"{python} -m pip install"
    # An installation that is not edited stays as it is: its folder may have another version by now.
    return f"type `{command} {edit if edited else needs}`"


def find_needs(extra: str, found: metadata.Distribution | None) -> Sequence[str]:
    """Return the requirements of an extra: of what is installed, or of a clone that is not."""
    told = [] if found is None else [_EXTRA.fullmatch(one) for one in found.requires or ()]
    needs = [one[1] for one in told if one is not None and one[2] == extra]
    project = _SOURCE / "pyproject.toml"
    if not needs and project.exists():
        raw = tomllib.loads(project.read_text(encoding="utf-8"))
        needs = raw["project"]["optional-dependencies"].get(extra, [])
    return needs or [extra]


def _find_distribution() -> metadata.Distribution | None:
    """Return this gateway's own distribution; None if it runs without one, even beside another `gateway`."""
    from importlib import metadata  # 0.8 MiB, for errors only

    try:
        found = metadata.distribution("gateway")
    except metadata.PackageNotFoundError:
        return None
    edited, source = _find_source(found)
    own = Path(source) == _SOURCE if edited else Path(str(found.locate_file(""))) == _SOURCE
    return found if own else None


def _find_source(found: metadata.Distribution) -> tuple[bool, str]:
    """Return whether it is edited where it stands, and the folder or address of its source.

    The source is "" if an index has it, or if the folder is gone. See
    https://packaging.python.org/specifications/direct-url/.
    """
    told = json.loads(found.read_text("direct_url.json") or "{}")
    url = str(told.get("url", ""))
    if (vcs := told.get("vcs_info")) is not None:
        return False, f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    folder = Path(unquote(urlsplit(url).path))
    if "dir_info" not in told or not (folder / "pyproject.toml").exists():
        return False, ""
    return bool(told["dir_info"].get("editable")), str(folder)
