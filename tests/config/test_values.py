"""Keys, addresses and headers of providers; no error repeats them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gateway.config.load import load_config
from gateway.config.records import Route
from gateway.config.values import RESERVED_HEADERS
from tests.support.rows import each_row
from tests.support.settings import CANARY, OPENAI, load, openai, refusal

PROVIDER = "gateway.toml: [providers.openai]"


@each_row("environ", [{}, {"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY": " \n"}])
def test_a_variable_that_is_not_set_turns_the_provider_off(
    tmp_path: Path, environ: Mapping[str, str]
) -> None:
    provider = openai(tmp_path, 'api_key = "env:OPENAI_API_KEY"', environ).providers["openai"]
    assert provider.off == "the environment variable OPENAI_API_KEY is not set"
    assert provider.api_keys == ()


def test_models_whose_providers_are_all_off_are_not_active(tmp_path: Path) -> None:
    toml = (
        '[providers.a]\ndialect = "chat"\nbase_url = "http://a"\napi_key = "env:A"\n'
        '[providers.b]\ndialect = "chat"\nbase_url = "http://b"\n'
        '[models."both"]\nroutes = ["a/m", "b/m"]\nprice = "free"\n'
        '[models."gone"]\nroutes = ["a/m"]\nprice = "free"\n'
    )
    off = load(tmp_path, toml)
    assert set(off.models) == {"both", "gone"}
    assert {m.id: m.routes for m in off.active_models().values()} == {"both": (Route("b", "m"),)}
    on = load(tmp_path, toml, {"A": "key"})
    assert on.active_models() == dict(on.models)


def test_a_key_is_read_from_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "openai.key").write_text(f"{CANARY}\n")
    provider = openai(tmp_path, 'api_key = "file:openai.key"').providers["openai"]
    assert (provider.api_keys, provider.off) == ((CANARY,), None)


@each_row("written", ["$CREDENTIALS_DIRECTORY/key", "${CREDENTIALS_DIRECTORY}/key"])
def test_a_file_may_be_named_by_a_variable(tmp_path: Path, written: str) -> None:
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "key").write_text(CANARY)
    environ = {"CREDENTIALS_DIRECTORY": str(folder)}
    provider = openai(tmp_path, f'api_key = "file:{written}"', environ).providers["openai"]
    assert provider.api_keys == (CANARY,)


@each_row(
    ("written", "problem"),
    [
        ('"file:none.key"', "cannot be read from none.key: No such file or directory"),
        ('"file:$NOWHERE/key"', "needs the environment variable NOWHERE, which is not set"),
        ('"file:empty.key"', "must be one word of printable ASCII, which the file empty.key does"),
        ('"file:lines.key"', "must be one word of printable ASCII, which the file lines.key does"),
        ('"file:binary.key"', "cannot be read from binary.key: the file is not UTF-8 text"),
        ('"env:BROKEN"', "must be one word of printable ASCII, which the environment variable BRO"),
        ('"env:"', 'must name an environment variable: "env:NAME"'),
        ('"env:A-B"', 'must name an environment variable: "env:NAME"'),
        ('"file: "', 'must name a file: "file:PATH"'),
        ('""', "must not be empty; leave it out where none is needed"),
        (f'"{CANARY}\\r\\nX: y"', "must be one word of printable ASCII, which it does not hold"),
        (f'[["{CANARY}"]]', 'must be a text: "env:NAME", "file:PATH" or the value itself'),
        (f'["{CANARY}", ""]', "must not be empty; leave it out where none is needed"),
        (f'["{CANARY}", "{CANARY}"]', "has the same key twice"),
        ("[]", "must not be empty; leave it out where none is needed"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_and_not_repeated(
    tmp_path: Path, written: str, problem: str
) -> None:
    (tmp_path / "empty.key").write_text("\n")
    (tmp_path / "lines.key").write_text(f"{CANARY}\n{CANARY}\n")
    (tmp_path / "binary.key").write_bytes(b"\xff\xfe" + CANARY.encode())
    error = refusal(tmp_path, f"{OPENAI}api_key = {written}", {"BROKEN": f"{CANARY}\x00"})
    assert error.startswith(f"gateway.toml: [providers.openai] api_key: {problem}")
    assert CANARY not in error


def test_no_secret_is_in_the_representation(tmp_path: Path) -> None:
    config = openai(tmp_path, f'api_key = "{CANARY}"\nheaders = {{ api-key = "{CANARY}" }}')
    assert config.providers["openai"].headers["api-key"] == CANARY
    assert CANARY not in repr(config)


@each_row("written", ["env:PROXY", "file:proxy", "itself"])
def test_a_proxy_is_an_address_that_may_be_secret(tmp_path: Path, written: str) -> None:
    address = f"http://user:{CANARY}@proxy.example.com:3128"
    (tmp_path / "proxy").write_text(address + "\n")
    written = address if written == "itself" else written
    config = openai(tmp_path, f'proxy = "{written}"', {"PROXY": address})
    assert (config.providers["openai"].proxy, config.providers["openai"].off) == (address, None)
    assert CANARY not in repr(config)


def test_a_provider_whose_proxy_is_not_set_is_off(tmp_path: Path) -> None:
    """A connection around the proxy is not what the operator wants."""
    provider = openai(tmp_path, 'proxy = "env:PROXY"').providers["openai"]
    assert provider.off == "the environment variable PROXY is not set"


@each_row(
    "address",
    [
        "https://{}@proxy:3128", "socks5://{}@proxy:1080", "proxy:3128", "http://{}@proxy",
        "http://{}@:3128", "http://{}@proxy:99999", "http://{}@proxy:x", "http://{}@proxy:0",
        "http://{}@proxy:3128/path", "http://{}@proxy:3128?a", "http://{}@proxy:3128#a",
        "http://{}@a..b:3128", "http://{}@[::1:3128",
    ],
)  # fmt: skip
def test_what_is_no_proxy_is_refused_and_not_repeated(tmp_path: Path, address: str) -> None:
    error = refusal(tmp_path, f'{OPENAI}proxy = "{address.format(f"user:{CANARY}")}"')
    assert error.startswith(f"{PROVIDER} proxy: must be an address such as")
    assert CANARY not in error


def test_operators_verbs_need_no_provider_key(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(OPENAI + 'api_key = "file:$CREDENTIALS_DIRECTORY/key"')
    config = load_config(path, {}, read_keys=False)
    assert config.providers["openai"].off == "its key was not looked up"


@each_row(
    "url",
    [
        "https://api.example.com/v1",
        "http://127.0.0.1:8000",
        "http://[::1]:8000/v1",
        "https://gateway.example.com/openai/deployments/a/v1",
    ],
)
def test_an_address_is_taken_without_its_slash(tmp_path: Path, url: str) -> None:
    for written in (url, url + "/"):
        toml = f'[providers.p]\ndialect = "chat"\nbase_url = "{written}"'
        assert load(tmp_path, toml).providers["p"].base_url == url


@each_row(
    "url",
    [
        "",
        "api.openai.com/v1",
        "ftp://h/v1",
        "https://",
        "https:///v1",
        "https://:443/v1",
        "http://h:0/v1",
        "http://h:99999/v1",
        "http://h:x/v1",
        "http://a..b/v1",
        f"http://{'a' * 64}.test/v1",
        "http://[::1/v1",
        "http://h/v1 ",
        "http://h/a b",
        "http://h/\\\\x",
        "http://h/\\r\\nX: y",
        f"https://user:{CANARY}@h/v1",
        f"https://{CANARY}@h/v1",
        f"https://h/v1?key={CANARY}",
        f"https://h/v1#{CANARY}",
        "https://h/v1?",
    ],
)
def test_an_address_that_could_lead_elsewhere_is_refused(tmp_path: Path, url: str) -> None:
    error = refusal(tmp_path, f'[providers.p]\ndialect = "chat"\nbase_url = "{url}"')
    assert error.startswith("gateway.toml: [providers.p] base_url: must ")
    assert CANARY not in error


@each_row("name", sorted(RESERVED_HEADERS | {"Authorization", "X-API-Key", "HOST"}))
def test_headers_of_the_gateway_cannot_be_set(tmp_path: Path, name: str) -> None:
    error = refusal(tmp_path, f'{OPENAI}headers = {{ {name} = "{CANARY}" }}')
    assert error.startswith(f'{PROVIDER} headers: must not have "{name}": the gateway sets it')
    assert CANARY not in error


@each_row(
    ("headers", "problem"),
    [
        (f'{{ "X\\r\\nY" = "{CANARY}" }}', 'has "X\\r\\nY", which is not a header name'),
        (f'{{ "X Y" = "{CANARY}" }}', 'has "X Y", which is not a header name'),
        (f'{{ "" = "{CANARY}" }}', 'has "", which is not a header name'),
        (
            f'{{ X = "{CANARY}\\r\\nY: z" }}',
            "must have printable ASCII on one line as the value of",
        ),
        (
            f'{{ X = "{CANARY}\\u0000" }}',
            'must have printable ASCII on one line as the value of "X"',
        ),
        (f'{{ X = ["{CANARY}"] }}', 'must have printable ASCII on one line as the value of "X"'),
        ("{ X = 1 }", 'must have printable ASCII on one line as the value of "X"'),
        (f'{{ X = "a", x = "{CANARY}" }}', 'has the header "x" twice'),
        ("5", 'must be a table such as { X-Team = "a" }, not 5'),
    ],
)
def test_headers_that_are_none_are_refused(tmp_path: Path, headers: str, problem: str) -> None:
    error = refusal(tmp_path, f"{OPENAI}headers = {headers}")
    assert error.startswith(f"{PROVIDER} headers: {problem}")
    assert CANARY not in error


@each_row(
    ("written", "origin"),
    [
        ("https://llm.example.com", "https://llm.example.com"),
        ("https://LLM.example.com:443/", "https://llm.example.com"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_a_public_address_is_kept_as_browsers_write_it(
    tmp_path: Path, written: str, origin: str
) -> None:
    assert load(tmp_path, f'[server]\npublic_url = "{written}"').server.public_url == origin


@each_row(
    ("line", "problem"),
    [
        ('public_url = "https://a.example/console"', "must end after host and port"),
        ('public_url = "a.example"', "must begin with http"),
        ('trusted_proxies = "10.0.0.0/8"', "must be an array such as"),
        ('trusted_proxies = ["proxy.local"]', "must list addresses or networks such as"),
        ("trusted_proxies = [10]", "must list addresses or networks such as"),
        ('trusted_proxies = ["10.0.0.1/8"]', "must list addresses or networks such as"),
    ],
)
def test_a_place_that_cannot_be_is_refused(tmp_path: Path, line: str, problem: str) -> None:
    key = line.partition(" ")[0]
    assert refusal(tmp_path, f"[server]\n{line}").startswith(
        f"gateway.toml: [server] {key}: {problem}"
    )


TRUSTED = '[server]\ntrusted_proxies = ["10.0.0.1"]\n'
NAMED_BY = "[console]\nidentity_header ="
PLACE = "gateway.toml: [console] identity_header:"


@each_row(
    ("written", "problem"),
    [
        ('""', "must be a header's name such as"),
        ('"Remote User"', "must be a header's name such as"),
        ('"Remote_User"', "must be a header's name such as"),
        ('["Remote-User"]', "must be a header's name such as"),
        ('"authorization"', "must be a header that names an account"),
        ('"X-Forwarded-For"', "must be a header that names an account"),
    ],
)
def test_a_header_that_cannot_name_an_account_is_refused(
    tmp_path: Path, written: str, problem: str
) -> None:
    assert refusal(tmp_path, f"{TRUSTED}{NAMED_BY} {written}").startswith(f"{PLACE} {problem}")


def test_a_header_that_nobody_may_send_is_refused(tmp_path: Path) -> None:
    text = f'{NAMED_BY} "Remote-User"'
    assert refusal(tmp_path, text).startswith(f"{PLACE} needs trusted_proxies under [server]")
    assert load(tmp_path, TRUSTED + text).console.identity_header == "Remote-User"
