"""Small price lists in the formats that others publish, written by hand."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any, Final

from gateway.config.load import load_config
from gateway.config.records import Config
from gateway.extras.price_lists.compare import Comparison, compare
from gateway.extras.price_lists.lists import open_list

TODAY: Final = date(2026, 11, 22)
OPENAI: Final = '[providers.openai]\ndialect = "chat"\nbase_url = "https://api.openai.com/v1"\n'
AZURE: Final = (
    '[providers.azure]\ndialect = "chat"\nbase_url = "https://mine.openai.azure.com/openai/v1"\n'
)
PROVIDERS: Final = OPENAI + AZURE


def genai(models: dict[str, Any], provider: str = "openai") -> str:
    """Write genai-prices' JSON; `models` has the prices of each id."""
    entries = [{"id": id_, "match": {"equals": id_}, "prices": one} for id_, one in models.items()]
    return json.dumps([{"id": provider, "name": provider, "models": entries}])


def litellm(models: dict[str, Any], provider: str = "openai") -> str:
    """Write LiteLLM's map; `models` has the prices per token of each name."""
    sample = {"litellm_provider": "one of …", "input_cost_per_token": 0.0}
    mode = {"litellm_provider": provider, "mode": "chat", "max_tokens": 4096}
    return json.dumps({"sample_spec": sample} | {name: mode | one for name, one in models.items()})


def write(folder: Path, text: str) -> Path:
    path = folder / "list.json"
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, toml: str) -> Config:
    path = folder / "gateway.toml"
    path.write_text(PROVIDERS + toml, encoding="utf-8")
    return load_config(path, {})


def compare_text(folder: Path, toml: str, text: str) -> list[Comparison]:
    return compare(load(folder, toml), open_list(write(folder, text), TODAY))


def model(lines: str, id_: str = "m", route: str = "openai/m") -> str:
    return f'[models."{id_}"]\nroutes = ["{route}"]\n{lines}\n'
