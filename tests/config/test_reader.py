"""Every error names its place and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.load import load_config, load_storage
from gateway.config.reader import ConfigError
from tests.support.rows import each_row


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
