"""The commands of first-week.md, run in their order by somebody who has just begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.base.process import ExitCode
from gateway.cli.verbs import find_words, load_verbs
from tests import ROOT
from tests.support.cli import Cli
from tests.support.rows import told_together
from tests.test_readme import TEXTS, find_commands, lacks_extra

OTHERWISE = {
    "reload": ExitCode.UNAVAILABLE,  # nothing serves here
    "alerts test": ExitCode.FAILED,  # no receiver is set
    "price check": ExitCode.NOT_FOUND,  # nobody has fetched a list
    "refund": ExitCode.NOT_FOUND,  # the document's call is made up
}


def test_each_command_of_the_first_week_works(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cli.folder)
    cli.config.write_bytes((ROOT / "gateway.toml").read_bytes())
    cli.done("account", "add", "operator", "--operator")
    load_verbs(find_words())
    with told_together() as row:
        for words in find_commands(TEXTS["first-week"]):
            if lacks_extra(words):
                continue
            told = " ".join(words)
            code = next((code for begin, code in OTHERWISE.items() if told.startswith(begin)), 0)
            with row(told):
                answer = cli.run(*(Path(one).name if one.startswith("/") else one for one in words))
                assert answer.code == code, answer.err
