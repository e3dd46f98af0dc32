"""Write test configurations into a folder and load them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.config.load import load_config
from gateway.config.reader import ConfigError
from gateway.config.records import Config
from tests import ROOT

SHIPPED = ROOT / "gateway.toml"
CANARY = "sk-canary-0123456789"

OPENAI = '[providers.openai]\ndialect = "chat"\nbase_url = "https://api.openai.com/v1"\n'
MODEL = '[models."m"]\nroutes = ["openai/m"]\nprice = { input = 1, output = 2 }\n'


def load(folder: Path, toml: str, environ: Mapping[str, str] | None = None) -> Config:
    path = folder / "gateway.toml"
    path.write_text(toml, encoding="utf-8")
    return load_config(path, environ or {})


def refusal(folder: Path, toml: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the error without the folder."""
    with pytest.raises(ConfigError) as caught:
        load(folder, toml, environ)
    return str(caught.value).replace(f"{folder}/", "")


def openai(folder: Path, extra: str, environ: Mapping[str, str] | None = None) -> Config:
    return load(folder, OPENAI + extra, environ)


def with_price(folder: Path, price: str) -> Config:
    return load(folder, f'{OPENAI}[models."m"]\nroutes = ["openai/m"]\nprice = {price}\n')
