"""The command that installs what an extra needs, by how the gateway was installed."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from os import PathLike
from pathlib import Path

import pytest

from gateway.extras.packages.install import tell_install
from tests.support.rows import each_row


class Installed(metadata.Distribution):
    def __init__(self, **files: str) -> None:
        self.files_by_name = {"METADATA": METADATA, **files}

    def read_text(self, filename: str) -> str | None:
        return self.files_by_name.get(filename.partition(".")[0])

    def locate_file(self, path: str | PathLike[str]) -> Path:
        return Path("/elsewhere", path)


METADATA = 'Name: gateway\nVersion: 1\nRequires-Dist: stripe>=15; extra == "cards"\n'
GIT = {"url": "https://h/g.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
PYTHON = f"type `{sys.executable} -m pip install"


@each_row(
    ("told", "installer", "marks", "said"),
    [
        ({"dir_info": {"editable": True}}, "pip", "", f"{PYTHON} -e 'DIR[cards]'`"),
        ({"dir_info": {"editable": True}}, "pip", "box", f"{PYTHON} -e 'DIR[cards]'`"),
        ({"dir_info": {"editable": True}}, "uv", "", f"type `uv pip install --python {sys.executable} -e 'DIR[cards]'`"),
        ({"dir_info": {}}, "pip", "", f"{PYTHON} 'stripe>=15'`"),
        (GIT, "pip", "", f"{PYTHON} 'stripe>=15'`"),
        (None, "pip", "", f"{PYTHON} 'stripe>=15'`"),
        (None, "pip", "box", "add `RUN pip install --no-cache-dir 'stripe>=15'` to the Containerfile and build again"),
        ({"dir_info": {}}, "pip", "pipx_metadata.json", "type `pipx inject DIR 'stripe>=15'`"),
        (GIT, "uv", "uv-receipt.toml", "type `uv tool install --force --with 'stripe>=15' git+https://h/g.git@abc`"),
        ({"dir_info": {}}, "uv", "uv-receipt.toml", "type `uv tool install --force --with 'stripe>=15' DIR`"),
        (None, "uv", "uv-receipt.toml", f"type `uv pip install --python {sys.executable} 'stripe>=15'`"),
    ],
)  # fmt: skip
def test_no_command_asks_an_index_for_the_gateway(
    tmp_path: Path, told: dict[str, object] | None, installer: str, marks: str, said: str
) -> None:
    for name in (*marks.split(), "pyproject.toml"):
        (tmp_path / name).touch()
    url = {} if told is None else {"direct_url": json.dumps({"url": f"file://{tmp_path}", **told})}
    found = Installed(INSTALLER=installer, **url)
    got = tell_install("cards", found, str(tmp_path), (tmp_path / "box",))
    wanted = said.replace("inject DIR", f"inject {tmp_path.name}").replace("DIR", str(tmp_path))
    assert got == wanted


def test_a_stranger_s_package_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has our name may stand beside a clone that is not installed."""
    stranger = Installed(METADATA="Name: gateway\nVersion: 9\n")
    monkeypatch.setattr(metadata, "distribution", lambda _: stranger)
    assert tell_install("cards", container=()) == f"{PYTHON} 'stripe>=15'`"
