"""The documents' snippets as people paste them, against a first start with the shipped configuration."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from tests import ROOT
from tests.clients import kit
from tests.support.extras import need_extra
from tests.support.process import GatewayProcess
from tests.support.rows import told_together
from tests.support.running import find_first_key

pytestmark = [pytest.mark.slow, pytest.mark.timeout(360)]

DOCUMENTS: Final = (
    ROOT / "README.md",
    ROOT / "gateway/docs/clients.md",
    ROOT / "gateway/docs/accounts.md",
)
BLOCK: Final = re.compile(r"^```(python|js|ini|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS: Final[dict[tuple[str, str], None]] = {
    block: None for path in DOCUMENTS for block in BLOCK.findall(path.read_text(encoding="utf-8"))
}
"""In their order, each once."""
END: Final = "-- end of a script --"
SUFFIXES: Final = {"js": ".mjs", "python": ".py"}
RUN_ALL: Final = {
    "js": f"""
import {{ readdirSync }} from "node:fs";
for (const name of readdirSync(".").filter((one) => one.startsWith("pasted-")).sort()) {{
  await import(`./${{name}}`);
  console.log("{END}");
}}
""",
    "python": f"""
import pathlib, runpy
for path in sorted(pathlib.Path().glob("pasted-*")):
    runpy.run_path(str(path), run_name="__main__")
    print("{END}")
""",
}
"""Programs that run the pasted scripts of a language, one after the other."""


def paste(text: str, gateway: GatewayProcess) -> str:
    """Put in the address and the key, and nothing else."""
    pasted = text.replace("sk-ru-...", find_first_key(gateway)[1])
    return pasted.replace("http://127.0.0.1:8080", gateway.root_url)


def name_script(text: str) -> str:
    """Return its last import."""
    return [line for line in text.splitlines() if "import " in line][-1]


@pytest.mark.parametrize("language", sorted(RUN_ALL))
async def test_scripts_print_what_the_demo_says(
    newcomer: GatewayProcess, tmp_path: Path, language: str
) -> None:
    """One process runs all of a language, as each SDK takes seconds to be imported."""
    texts = [text for spoken, text in BLOCKS if spoken == language]
    for number, text in enumerate(texts):
        script = paste(text, newcomer)
        assert script != text
        (tmp_path / f"pasted-{number:02}").with_suffix(SUFFIXES[language]).write_text(script)
    out = await kit.run_text(language, RUN_ALL[language], tmp_path, {})
    greeting = ["Hello,", "gateway!"]
    receipt = [*greeting, "cost:", "0.0000015"]
    transcript = ["A", "recording", "of", "4,000", "bytes,", "6", "seconds", "at", "most."]
    answers = (greeting, receipt, [*greeting, "64"], ["64"], transcript)
    with told_together() as row:
        for text, told in zip(texts, out.split(END)[:-1], strict=True):
            with row(name_script(text)):
                assert told.split() in (([],) if "hello.wav" in text else answers)
    assert (tmp_path / "hello.wav").exists() == (language == "python")


async def test_codex_takes_its_lines(newcomer: GatewayProcess, tmp_path: Path) -> None:
    codex = kit.find("node_modules", ".bin", "codex")
    (lines,) = (text for language, text in BLOCKS if language == "ini" and "wire_api" in text)
    (tmp_path / "config.toml").write_text(paste(lines, newcomer), encoding="utf-8")
    environment = {"CODEX_HOME": str(tmp_path), "GATEWAY_KEY": find_first_key(newcomer)[1]}
    words = (codex, "exec", "--skip-git-repo-check", "Say hello.")
    told = await kit.run(words, tmp_path, environment)
    assert told.code == 0, told.out
    assert told.out.rstrip().endswith("Say hello.")


async def test_the_curl_commands(newcomer: GatewayProcess, tmp_path: Path) -> None:
    """The first asks the model, the second for the receipt of that request."""
    ask, receipt = (text for language, text in BLOCKS if language == "sh" and "curl http" in text)
    with_head = paste(ask, newcomer).replace("curl ", "curl -si ")
    told = await kit.run(("sh", "-c", with_head), tmp_path, {})
    assert '"content":"Hello, gateway!"' in told.out
    (request_id,) = re.findall(r"x-request-id: (\w+)", told.out)
    pasted = paste(receipt, newcomer).replace("req_...", request_id)
    told = await kit.run(("sh", "-c", pasted), tmp_path, {})
    assert '"cost":"0.0000015"' in told.out


@need_extra("script_tokens")
async def test_a_shop_s_requests(newcomer: GatewayProcess, tmp_path: Path) -> None:
    """Pasted twice, as after a lost reply: one account, one key, one credit."""
    (script,) = (text for language, text in BLOCKS if language == "sh" and "PAYMENT" in text)
    command = (sys.executable, "-m", "gateway")
    environment = {"GATEWAY_CONFIG": str(newcomer.config), "PYTHONPATH": str(ROOT)}
    add = (*command, "token", "add", "shop", "--role", "accounts")
    token = (await kit.run(add, tmp_path, environment)).out.split()[-1]
    pasted = paste(script, newcomer).replace("gwt_...", token)
    told = await kit.run(("sh", "-c", pasted * 2), tmp_path, environment)
    assert told.out.count('"secret":"sk-ru-') == 1
    assert told.out.count('"code":"already_done"') == 1
    assert told.out.count('"amount":"20.00"') == 2
    show = (*command, "account", "show", "customer-17", "--json")
    shown = json.loads((await kit.run(show, tmp_path, environment)).out)
    assert (shown["balance"], len(shown["keys"]), len(shown["entries"])) == ("20.00", 1, 1)
