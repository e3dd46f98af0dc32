"""Every error names its place and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.load import load_config, load_storage
from gateway.config.reader import ConfigError
from tests.support.rows import each_row
from tests.support.settings import MODEL, OPENAI, load, refusal

PROVIDER = "gateway.toml: [providers.openai]"


@each_row(
    ("toml", "error"),
    [
        ("[servr]", 'gateway.toml: [servr]: unknown table; did you mean "server"?'),
        ("prot = 1", "gateway.toml: prot: unknown key; known here: server"),
        ("zzz = 1", "gateway.toml: zzz: unknown key; known here: server, storage, billing,"),
        ("server = 5", "gateway.toml: server: must be a table, not 5"),
        ("[[server]]\nport = 1", "gateway.toml: server: must be a table, not an array"),
        ("providers = 5", "gateway.toml: providers: must be a table, not 5"),
        ("[providers]\nx = 5", "gateway.toml: [providers.x]: must be a table, not 5"),
        ("[models]\nx = 5", 'gateway.toml: [models."x"]: must be a table, not 5'),
        ("[server]\nprot = 1", 'gateway.toml: [server] prot: unknown key; did you mean "port"?'),
        ('[server]\n"a b" = 1', 'gateway.toml: [server] "a b": unknown key; known here: host,'),
        ('[server]\nport = "80"', 'gateway.toml: [server] port: must be a whole number from 0 to 65535, not "80"'),
        ("[server]\nport = true", "gateway.toml: [server] port: must be a whole number from 0 to 65535, not true"),
        ("[server]\nport = 80.0", "gateway.toml: [server] port: must be a whole number from 0 to 65535, not 80.0"),
        ("[server]\nport = 65536", "gateway.toml: [server] port: must be a whole number"),
        ("[server]\nport = -1", "gateway.toml: [server] port: must be a whole number"),
        ('[server]\nhost = ""', "gateway.toml: [server] host: must be one line of text that is not"),
        ("[server]\nhost = 1", "gateway.toml: [server] host: must be one line of text that is not"),
        ('[server]\nhost = "a\\nb"', "gateway.toml: [server] host: must be one line of text"),
        ("[server]\nmax_body_mb = 0", "gateway.toml: [server] max_body_mb: must be a whole number from 1"),
        ("[server]\nmax_in_flight = 0", "gateway.toml: [server] max_in_flight: must be a whole num"),
        ("[server]\ndrain_seconds = -1", "gateway.toml: [server] drain_seconds: must be a number of seconds 0 or more, not -1"),
        ("[server]\nstall_seconds = 0", "gateway.toml: [server] stall_seconds: must be a number of seconds above 0, not 0"),
        ("[storage]\npath = 7", "gateway.toml: [storage] path: must be one line of text"),
        ('[billing]\ncurrency = "$"', 'gateway.toml: [billing] currency: must be a word of 1 to 12 letters, not "$"'),
        ("[billing]\ncurrency = 1", "gateway.toml: [billing] currency: must be a word of 1 to 12 letters, not 1"),
        ("[billing]\nhold_output_tokens = 0", "gateway.toml: [billing] hold_output_tokens: must be a"),
        ("[billing]\ndemo_credit = -5", "gateway.toml: [billing] demo_credit: must be a decimal number"),
        ("[billing]\ndemo_credit = nan", "gateway.toml: [billing] demo_credit: must be a decimal num"),
        ("[limits]\nconcurrency = -1", "gateway.toml: [limits] concurrency: must be a whole number"),
        ('[providers.x]\nbase_url = "http://h"', "gateway.toml: [providers.x] dialect: is missing; it is the API"),
        ('[providers.x]\ndialect = "chat"', "gateway.toml: [providers.x] base_url: is missing; it is the address"),
        ('[providers."a b"]\ndialect = "chat"', 'gateway.toml: [providers."a b"] base_url: is missing'),
        ('[providers."a/b"]\ndialect = "demo"', 'gateway.toml: [providers."a/b"]: a provider\'s name must'),
        ('[providers.x]\ndialect = "grpc"', 'gateway.toml: [providers.x] dialect: must be "chat", "messages", "responses" or "demo", not "grpc"'),
        ("[providers.x]\ndialect = 1", 'gateway.toml: [providers.x] dialect: must be "chat", "mess'),
        ('[providers.x]\ndialect = "demo"\nbase_url = "http://h"', "gateway.toml: [providers.x] base_url: must be left out"),
        ('[providers.x]\ndialect = "demo"\napi_key = "k"', "gateway.toml: [providers.x] api_key: must be left out"),
        (OPENAI + 'connect_timeout = "5s"', f'{PROVIDER} connect_timeout: must be a number of seconds above 0, not "5s"'),
        (OPENAI + "connect_timeout = 0", f"{PROVIDER} connect_timeout: must be a number of seconds above 0, not 0"),
        (OPENAI + "connect_timeout = inf", f"{PROVIDER} connect_timeout: must be a number of seconds above 0, not Infinity"),
        (OPENAI + "connect_timeout = nan", f"{PROVIDER} connect_timeout: must be a number of seconds above 0, not NaN"),
        (OPENAI + "connect_timeout = true", f"{PROVIDER} connect_timeout: must be a number of seconds above 0, not true"),
        (OPENAI + "total_timeout = 86401", f"{PROVIDER} total_timeout: must be at most 86400 seconds, not 86401"),
        (OPENAI + "conect_timeout = 1", f'{PROVIDER} conect_timeout: unknown key; did you mean "connect_timeout"?'),
        (OPENAI + "max_concurrency = -1", f"{PROVIDER} max_concurrency: must be a whole number"),
        (OPENAI + 'on_disconnect = "stop"', f'{PROVIDER} on_disconnect: must be "abort" or "drain", not "stop"'),
        (OPENAI + "stream_usage = 1", f"{PROVIDER} stream_usage: must be true or false, not 1"),
        (MODEL, 'gateway.toml: [models."m"] routes: there is no [providers.openai]; there are none'),
        (OPENAI + MODEL.replace("openai/m", "opnai/m"), 'gateway.toml: [models."m"] routes: there is no [providers.opnai]; did you mean "openai"?'),
        (OPENAI + MODEL.replace('["openai/m"]', "[]"), 'gateway.toml: [models."m"] routes: must be an array'),
        (OPENAI + MODEL.replace('["openai/m"]', '"openai/m"'), 'gateway.toml: [models."m"] routes: must be an array'),
        (OPENAI + MODEL.replace("openai/m", "openai"), 'gateway.toml: [models."m"] routes: must have routes like "provider/upstream model", not "openai"'),
        (OPENAI + MODEL.replace("openai/m", "openai/"), 'gateway.toml: [models."m"] routes: must have routes like'),
        (OPENAI + MODEL.replace("openai/m", "/m"), 'gateway.toml: [models."m"] routes: must have routes like'),
        (OPENAI + MODEL.replace('"openai/m"', '"openai/m", "openai/m"'), 'gateway.toml: [models."m"] routes: has "openai/m" twice'),
        (OPENAI + MODEL.replace('"openai/m"', "1"), 'gateway.toml: [models."m"] routes: must be one line of text'),
        (OPENAI + '[models."m"]\nprice = "free"', 'gateway.toml: [models."m"] routes: is missing; it is an array of'),
        (OPENAI + MODEL + 'owned_by = "Open AI"', 'gateway.toml: [models."m"] owned_by: must be a lowercase word'),
        (OPENAI + MODEL + "max_output_tokens = 0", 'gateway.toml: [models."m"] max_output_tokens: must be'),
        (OPENAI.replace('"chat"', '"messages"') + MODEL, 'gateway.toml: [models."m"] max_output_tokens: is missing; a messages provider has to be told the limit'),
        (OPENAI + MODEL + "created = 2026-01-01", 'gateway.toml: [models."m"] created: must be a whole number from 0 to 1099511627776, not a date or time'),
        (OPENAI + MODEL.replace('"m"', '""'), 'gateway.toml: [models.""]: a model id must not be empty'),
        (OPENAI + MODEL.replace('"m"', '" m"'), 'gateway.toml: [models." m"]: a model id must not be empty or have spaces around it'),
        (OPENAI + MODEL.replace('"m"', '"a\\u0007b"'), 'gateway.toml: [models."a\\u0007b"]: a model id must have no control'),
        (OPENAI + MODEL.replace('"m"', f'"{"m" * 201}"'), f'gateway.toml: [models."{"m" * 201}"]: a model id must have at most 200'),
        (OPENAI + MODEL.replace('models."m"', "models.gpt-4.1"), 'gateway.toml: [models."gpt-4"] 1: unknown table; put a model id with a dot in quotes: [models."gpt-4.1"]'),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_table_and_key(tmp_path: Path, toml: str, error: str) -> None:
    assert refusal(tmp_path, toml).startswith(error)


@each_row(
    ("toml", "most"),
    [
        ("[server]\nmax_in_flight = ", 10**6),
        ("[limits]\nconcurrency = ", 10**9),
        ("[billing]\ndemo_credit = ", 10**9),
        (OPENAI + MODEL + "max_input_tokens = ", 10**8),
        (OPENAI + MODEL + "max_output_tokens = ", 10**8),
    ],
)
def test_the_largest_number_is_accepted_and_one_more_refused(
    tmp_path: Path, toml: str, most: int
) -> None:
    load(tmp_path, f"{toml}{most}")
    assert "must be a" in refusal(tmp_path, f"{toml}{most + 1}")


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "none.toml", {})
    assert "none.toml: there is no such file. Name yours with --config FILE" in str(caught.value)


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: it is a folder; name a file"):
        load_config(tmp_path, {})


@each_row(
    ("content", "problem"),
    [
        (b"[server]\nport = \n", "is not valid TOML: Invalid value (at line 2, column 8)"),
        (b"[server]\n[server]\n", "is not valid TOML: Cannot declare ('server',) twice (at line 2"),
        (b"x = " + b"9" * 5000, "is not valid TOML: a number is too long"),
        (b"x = 1e" + b"9" * 30, "is not valid TOML: a number is too long"),
        (b"x = " + b"[" * 100_000, "is not valid TOML: nested too deeply"),
        (b"[server]\nhost = '\xff'\n", "must be UTF-8 text; the byte at 17 is not"),
    ],
)
def test_what_is_no_toml_is_refused_with_its_line(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert str(caught.value).startswith(f"{path}: {problem}")


def test_the_database_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "gateway.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("here/gateway.toml"), {})
    assert config.storage.path == tmp_path / "here" / "gateway.db"


@each_row(
    ("toml", "database"),
    [
        ("", "gateway.db"),
        ('[storage]\npath = "a.db"\n[models.x', "a.db"),
        ('[server]\nport = "x\n\n [ storage ] # here\n# why\npath = "a.db"', "a.db"),
        ('[server]\nport = x\n[storage]\n[billing]\npath = "b.db"', "gateway.db"),
        ("[server]\nport = x", "gateway.db"),
        ("[servr]\nport = 1", "gateway.db"),
    ],
)
def test_the_database_is_found_in_a_file_that_is_broken_elsewhere(
    tmp_path: Path, toml: str, database: str
) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(toml)
    assert load_storage(path, {}).storage.path == tmp_path / database


@each_row(
    ("toml", "error"),
    [
        ("[storage]\npath = 7", "[storage] path: must be one line of text"),
        ("[storage]\npth = 'x'", '[storage] pth: unknown key; did you mean "path"?'),
        ("storage = 7", "storage: must be a table, not 7"),
        ("[storage]\npath = 'x\n[server]\nport = 1", "is not valid TOML"),
    ],
)
def test_an_error_about_the_database_is_told(tmp_path: Path, toml: str, error: str) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(toml)
    with pytest.raises(ConfigError) as caught:
        load_storage(path, {})
    assert error in str(caught.value)
