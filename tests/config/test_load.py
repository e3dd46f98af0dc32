"""Load gateway.toml: values and defaults."""

from __future__ import annotations

import os
import re
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from gateway.config.load import load_config
from gateway.config.reader import REQUIRED, ConfigError
from gateway.config.settings import SETTINGS
from gateway.dialects.wire.records import DIALECTS, KINDS
from gateway.extension import find_missing, find_tables
from tests.documents import UNWRITTEN, read_meanings
from tests.support.formats import CALLERS
from tests.support.rows import each_row
from tests.support.settings import CANARY, MODEL, OPENAI, SHIPPED, load


def test_the_shipped_file_serves_the_demo_with_no_variable_set() -> None:
    config = load_config(SHIPPED, {})
    models = ["echo", "embed", "voice", "ear", "text", "image", "rerank"]
    demo = [one for name in models if (one := f"demo/{name}") not in config.lacking]
    assert list(config.active_models()) == demo
    assert demo[0] == "demo/echo"
    assert config.billing.demo_credit_nano == 5 * 10**9
    assert {name for name, provider in config.providers.items() if provider.off is None} == {"demo"}


@each_row(
    ("variable", "provider", "dialect"),
    [
        *([("OPENAI_API_KEY", "openai", "responses")] if "responses" in CALLERS else []),
        ("ANTHROPIC_API_KEY", "anthropic", "messages"),
        ("DEEPSEEK_API_KEY", "deepseek", "chat"),
    ],
)
def test_a_variable_switches_a_shipped_provider_on(
    variable: str, provider: str, dialect: str
) -> None:
    config = load_config(SHIPPED, {variable: CANARY})
    assert config.providers[provider].off is None
    assert config.providers[provider].dialect == dialect
    assert config.providers[provider].api_keys == (CANARY,)
    owners = {model.owned_by for model in config.active_models().values()}
    assert owners == {"demo", provider}


def test_a_configuration_may_come_from_a_pipe() -> None:
    """As in `--config <(sops decrypt gateway.toml)`: it can be read only once."""
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write((OPENAI + MODEL).encode())
        config = load_config(Path(f"/dev/fd/{reading}"), {})
    finally:
        os.close(reading)
    assert list(config.models) == ["m"]


def find_missing_table(part: str) -> str | None:
    name = re.match(r"#\[([a-z.]+)\]", part)
    return find_missing("tables", name[1]) if name and name[1] not in find_tables() else None


def test_every_commented_server_of_the_shipped_file_works_uncommented(tmp_path: Path) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    # A table of an extra that was taken away stays a remark.
    parts = re.split(r"^(?=#?\[)", text, flags=re.MULTILINE)
    kept = [one for one in parts if not find_missing_table(one)]
    config = load(tmp_path, re.sub(r"^#(?=[\[a-z])", "", "".join(kept), flags=re.MULTILINE))
    assert {"vllm", "llamacpp", "ollama"} <= set(config.providers)
    assert {"qwen3-8b", "local", "llama3.2"} <= set(config.active_models())


def test_the_shipped_file_writes_the_defaults_that_it_writes() -> None:
    """Each value in the shipped sections is the default, so deleting a line changes nothing."""
    with SHIPPED.open("rb") as file:
        shipped = tomllib.load(file, parse_float=Decimal)
    for table in ("server", "storage", "billing", "limits"):
        for key, value in shipped[table].items():
            if key != "demo_credit":
                assert SETTINGS[table][key].default == value, f"[{table}] {key}"


def test_every_setting_has_a_meaning_and_a_readable_default() -> None:
    meanings = read_meanings("configuration")
    for table, settings in SETTINGS.items():
        for key, setting in settings.items():
            meaning = meanings[table, key]
            assert meaning != UNWRITTEN, f"{table}.{key}"
            # A dialect's meaning lists those of the extras that are there.
            assert key == "dialect" or setting.what in ("", meaning), f"{table}.{key}"
            if setting.default not in (None, REQUIRED):
                setting.read(setting.default)


def test_what_lacks_an_extra_is_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As without its key: the rest of the file is served. A name that no extra has is an error."""
    monkeypatch.setattr("gateway.config.models.find_kinds", lambda: KINDS)
    monkeypatch.setattr("gateway.config.models.find_dialects", lambda: DIALECTS)
    drawn = '[models.m2]\nkind = "image"\nroutes = ["openai/m"]\nprice = "free"\n'
    toml = (OPENAI + MODEL + drawn).replace('dialect = "chat"', 'dialect = "responses"')
    config, ends = load(tmp_path, toml), "; it is not in this installation"
    assert (
        config.providers["openai"].off == f'dialect = "responses" needs the extra "responses"{ends}'
    )
    assert config.lacking == {"m2": f'kind = "image" needs the extra "images"{ends}'}
    assert (list(config.models), config.active_models()) == (["m"], {})
    with pytest.raises(ConfigError, match="must be"):
        load(tmp_path, toml.replace('"image"', '"picture"'))
