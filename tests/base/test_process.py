"""The version is that of the package."""

from __future__ import annotations

import tomllib
from importlib import metadata

import pytest

from gateway.base import process
from gateway.base.process import UNKNOWN
from tests import ROOT


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert process.find_installed()[0] in {project["version"], UNKNOWN}

    def find_none(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", find_none)
    assert process.find_installed()[0] == UNKNOWN
