"""README and the documents in gateway/docs are held to the code."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import datetime
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from gateway.base.errors import GatewayError
from gateway.base.money import FREE, NANO, PRICES, Tokens, compute_cost_nano, format_amount
from gateway.base.prices import AppliedPrice
from gateway.cli.parser import make_parser
from gateway.cli.verbs import VERBS, find_words, load_verbs
from gateway.config.load import load_config
from gateway.config.reader import ConfigError
from gateway.extension import find_ledger_tables, find_missing
from gateway.ledger.call_records import Receipt, describe_receipt
from gateway.ledger.versions import VERSION
from tests import ROOT
from tests.documents import DOCUMENTS, EXTRAS, PARTS, README, count_code, find_part
from tests.support.formats import UPSTREAMS
from tests.support.rows import each_row

TEXT: Final = README.read_text(encoding="utf-8")
TEXTS: Final = {path.stem: path.read_text(encoding="utf-8") for path in DOCUMENTS}
MAX_README_LINES: Final = 180
EXTRA: Final = re.compile(r"\bextras/(\w+)/")


@each_row("mark", PARTS)
def test_the_documents_say_what_the_code_says(mark: str) -> None:
    """`python -m tests.documents` writes what differs."""
    _, part = find_part(mark)
    assert part == PARTS[mark]()


def test_readme_links_every_document_and_the_package_has_them() -> None:
    """An installation without the repository has the documents of its version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["gateway"]
    documents = [path for path in DOCUMENTS if path != README]
    assert len(documents) >= 5
    assert len(TEXT.splitlines()) <= MAX_README_LINES
    for path in documents:
        assert f"({path.relative_to(ROOT).as_posix()})" in TEXT
        inside = path.relative_to(ROOT / "gateway").as_posix()
        assert any(fnmatch(inside, pattern) for pattern in patterns)


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    for path in DOCUMENTS:
        for target in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
            name, _, anchor = target.partition("#")
            if name.startswith(("http:", "https:")):
                continue
            linked = (path.parent / name).resolve() if name else path
            if (extra := EXTRA.search(linked.as_posix())) and not (EXTRAS / extra[1]).exists():
                continue  # it was taken away
            assert linked.is_file(), f"{path.name}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)", linked.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
                assert anchor in slugs, f"{path.name}: {target}"


def test_the_headers_that_pass_are_named() -> None:
    """And no other one is said to pass."""
    text = TEXTS["formats"]
    named = re.search(
        r"The headers (.*?) of messages callers go to messages providers", text, re.DOTALL
    )
    assert named is not None
    passed = {name for one in UPSTREAMS.values() for name in one.passed_headers}
    assert set(re.findall(r"`([^`]+)`", named[1])) == passed


def test_the_command_that_tests_is_near_the_one_that_runs() -> None:
    section = TEXT.partition("## Run it\n")[2].partition("\n## ")[0]
    assert "<!-- test-command -->\n```sh\n" in section


def test_the_changes_tell_every_schema() -> None:
    """The latest changes begin with the schemas: of databases, and of extras' tables from their second version on."""
    _, latest, *_ = TEXTS["changes"].split("\n## ")
    tables = {f"extra {name}": one.version for name, one in find_ledger_tables().items()}
    schemas = {"SQLite": VERSION, **{name: one for name, one in tables.items() if one > 1}}
    for path in (ROOT / "gateway").glob("extras/*/versions.py"):  # of databases
        name = path.parent.name
        schemas[name] = import_module(f"gateway.extras.{name}.versions").VERSION
    told = re.search(r"^Schema of the database: (.*?)\.?$", latest, re.MULTILINE)
    assert told is not None
    for name, version in schemas.items():
        assert f"{version} in {name}".lower() in told[1].lower()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert latest.split()[0] == project["version"]


def test_every_error_code_is_documented() -> None:
    """Each status and code that a caller can meet stands in the errors table."""
    seen = set()
    todo = [GatewayError]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        code = getattr(kind, "chat_code", None)
        if code is not None:
            seen.add((kind.status, code))
    table = TEXTS["clients"].partition("## Errors")[2].partition("##")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    for status, code in seen - {(404, "model_not_found")}:
        assert any(str(status) in row.split("|")[1] and f"`{code}`" in row for row in rows), code


def test_the_examples_of_toml_are_valid(tmp_path: Path) -> None:
    """They work beside the shipped file, with the variables that they name."""
    shipped = (ROOT / "gateway.toml").read_text(encoding="utf-8")
    blocks = [
        block
        for text in TEXTS.values()
        for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    ]
    assert len(blocks) >= 3
    # README's provider may be of any dialect.
    blocks += [
        one.replace('"chat"', f'"{dialect}"')
        for one in blocks
        if one in TEXT
        for dialect in ("responses", "messages")
    ]
    for block in blocks:
        path = tmp_path / "gateway.toml"
        path.write_text(f"{shipped}\n{block}", encoding="utf-8")
        try:
            load_config(path, dict.fromkeys(re.findall(r'"env:(\w+)"', block), "secret"))
        except ConfigError as error:
            if "needs the extra" not in str(error):
                raise


def test_the_copy_of_the_configuration_has_its_database_elsewhere(tmp_path: Path) -> None:
    """The `sed` of the installation changes the path of the database, and nothing else."""
    script = re.findall(r"sudo sed -i '(.*?)' /etc/gateway/gateway.toml", TEXTS["deploy"])
    shipped = (ROOT / "gateway.toml").read_text(encoding="utf-8")
    copy = tmp_path / "gateway.toml"
    copy.write_text(shipped, encoding="utf-8")
    subprocess.run(["sed", "-i", *script, copy], check=True)
    changed = set(copy.read_text(encoding="utf-8").splitlines()) - set(shipped.splitlines())
    assert changed == {'path = "/var/lib/gateway/gateway.db"'}
    assert load_config(copy, {}).storage.path == Path("/var/lib/gateway/gateway.db")


GATEWAY: Final = re.compile(r"(?:^| )(?:\S*bin/gateway|gw) ([^|>]*)")
"""A command of ours within a line of shell: `.venv/bin/gateway ...`, or the alias `gw ...`."""


def find_commands(text: str) -> Iterator[list[str]]:
    blocks = re.findall(r"```(?:sh|crontab)\n(.*?)```", text, re.DOTALL)
    inline = re.findall(r"`((?:\.venv/bin/gateway|gw) [^`]*)`", text)
    for line in [*"".join(blocks).splitlines(), *(one.replace("\n", " ") for one in inline)]:
        if not line.startswith("alias ") and (match := GATEWAY.search(line)):
            yield shlex.split(match[1], comments=True)


def lacks_extra(words: list[str]) -> bool:
    """Return whether a command needs an extra that was taken away; all verbs have been loaded."""
    options = {f"{path} {one.name}" for path, verb in VERBS.items() for one in verb.arguments}
    known = {*find_words(), *VERBS, *options}
    used = (*words, *(" ".join(words[:count]) for count in (2, 3)))
    return any(one not in known and find_missing("words", one) for one in used)


def test_the_commands_are_those_of_the_program() -> None:
    commands = [words for text in TEXTS.values() for words in find_commands(text)]
    assert len(commands) >= 20
    load_verbs(find_words())
    parser = make_parser()
    for words in commands:
        if not lacks_extra(words):
            parser.parse_args(words)


def test_the_documents_show_every_verb() -> None:
    shown = {word for text in TEXTS.values() for words in find_commands(text) for word in words}
    assert find_words().keys() - {"serve"} <= shown


def test_the_receipt_is_whole_and_adds_up() -> None:
    """The example is what the code makes, and the text around it explains its hold and cost."""
    _, part = find_part("receipt")
    shown = orjson.loads(part.removeprefix("```json").removesuffix("```"))
    receipt = read_receipt(shown)
    assert shown == orjson.loads(orjson.dumps(describe_receipt(receipt, shown["currency"])))
    assert shown["cost_nano"] == compute_cost_nano(receipt.tokens, receipt.price.price)
    assert shown["hold_nano"] == compute_cost_nano(
        Tokens(input=32, output=1024), receipt.price.price
    )
    text = " ".join(TEXTS["charges"].split())
    assert f"32 × 0.15 + 1,024 × 0.60 per million, {shown['hold']}" in text
    assert f"2 × 0.15 + 2 × 0.60 per million, {shown['cost']}" in text
    for nano in (shown["cost_nano"], shown["hold_nano"]):
        assert format_amount(5 * NANO - nano) in text


def read_receipt(shown: dict[str, Any]) -> Receipt:
    """Read a receipt of a request without corrections, cached tokens and rules."""
    other = {"price", "tokens", "tool_calls", "corrections", "explanation"}
    same = {one.name for one in fields(Receipt)} & set(shown) - other
    prices = {name: shown["price"][f"{name}_nano"] for name in PRICES if name in shown["price"]}
    return Receipt(
        **{name: shown[name] for name in same},
        key_id="",
        price=AppliedPrice(replace(FREE, **prices)),
        tokens=Tokens(input=shown["input_tokens"], output=shown["output_tokens"]),
        started_ms=parse_ms(shown["started"]),
        ended_ms=parse_ms(shown["ended"]),
    )


def parse_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


SIZE: Final = re.compile(r"\| \[(\w+)\][^|]+ ([\d,]+)(?= \|)|(core) ([\d,]+)")
MOST_OFF: Final = 0.1
"""How far a size may be off, or by fifty lines: a change of a line is no change of the README."""


@pytest.mark.no_cover
def test_each_part_has_its_size_in_the_readme() -> None:
    told = {
        one[1] or one[3]: int((one[2] or one[4]).replace(",", ""))
        for one in SIZE.finditer(find_part("sizes")[1])
    }
    sizes = {"core": count_code(ROOT / "gateway", but=EXTRAS)}
    sizes |= {path.parent.name: count_code(path.parent) for path in EXTRAS.glob("*/__init__.py")}
    assert sizes.keys() <= told.keys()
    off = {
        name: size
        for name, size in sizes.items()
        if abs(told[name] - size) > max(50, MOST_OFF * size)
    }
    assert off == {}, "python -m tests.documents"
