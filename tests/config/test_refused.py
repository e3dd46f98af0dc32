"""The errors of gateway.toml: `refused.txt` has texts that are refused, and what is said of each.

`! ` begins a line that is said, `…` ends one that goes on. `OPENAI` and `MODEL` stand for a provider
and a model that are in order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.config.values import RESERVED_HEADERS
from tests.support.rows import each_row, told_together
from tests.support.settings import CANARY, MODEL, OPENAI, load, refusal
from tests.support.stand_in import PASSWORD

BLOCKS: Final = Path(__file__).with_name("refused.txt").read_text(encoding="utf-8").split("\n\n")
ENVIRON: Final = {
    "BROKEN": f"{CANARY}\x00",
    "EMPTY": " ",
    "OTHER": f"https://{PASSWORD}",
    "TWO": f"postgresql://a b:{PASSWORD}",
}
FILES: Final = {
    "empty.key": b"\n",
    "lines.key": f"{CANARY}\n{CANARY}\n".encode(),
    "binary.key": b"\xff\xfe" + CANARY.encode(),
}


def test_what_is_refused_is_named_by_its_place_without_secrets(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    cases = [block.splitlines() for block in BLOCKS if "\n! " in block]
    assert len(cases) > 200
    with told_together() as row:
        for lines in cases:
            toml = "".join(f"{line}\n" for line in lines if not line.startswith("! "))
            told = [line.removeprefix("! ") for line in lines if line.startswith("! ")]
            toml = toml.replace("OPENAI\n", OPENAI).replace("MODEL\n", MODEL)
            with row(toml):
                said = refusal(tmp_path, toml, ENVIRON).replace("gateway.toml: ", "")
                assert not [one for one in (CANARY, PASSWORD) if one in said]
                for line, wanted in zip(said.splitlines(), told, strict=True):
                    known, cut, _ = wanted.partition("…")
                    assert line.startswith(known) if cut else line == wanted


@each_row("name", sorted(RESERVED_HEADERS | {"Authorization", "X-API-Key", "HOST"}))
def test_headers_of_the_gateway_cannot_be_set(tmp_path: Path, name: str) -> None:
    error = refusal(tmp_path, f'{OPENAI}headers = {{ {name} = "{CANARY}" }}')
    assert f'headers: must not have "{name}": the gateway sets it' in error
    assert CANARY not in error


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


def test_a_number_of_thousands_of_digits_is_not_repeated(tmp_path: Path) -> None:
    said = refusal(tmp_path, f"{OPENAI}connect_timeout = 0x{'f' * 6000}")
    assert said.endswith("not a number that long")
