"""Containers in deploy.md are what the units are for."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from gateway.cli.parser import make_parser
from gateway.cli.verbs import find_words, load_verbs
from gateway.config.load import load_config
from gateway.extras.units import texts
from gateway.server.systemd import GRACE_SECONDS
from tests.extras.units.test_units import DEPLOY
from tests.support.settings import SHIPPED


def test_containers_get_the_time_the_user_and_the_folders_that_the_gateway_needs() -> None:
    yaml = pytest.importorskip("yaml")
    text = DEPLOY.read_text(encoding="utf-8")
    one, several = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    compose = yaml.safe_load(one)["services"]["gateway"]
    pod = next(yaml.safe_load_all(several))["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    stop_seconds = 30 + GRACE_SECONDS
    waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert load_config(SHIPPED, {}).server.drain_seconds == 30
    assert compose["stop_grace_period"] == f"{stop_seconds}s"
    assert pod["terminationGracePeriodSeconds"] == stop_seconds + waits
    folders = {str(Path(texts.CONTAINER_CONFIG).parent), str(texts.CONTAINER_STATE), "/tmp"}
    assert {each["mountPath"] for each in container["volumeMounts"]} == folders
    mounted = {each.split(":")[1] for each in compose["volumes"]}
    assert mounted | set(compose["tmpfs"]) == folders
    named = {each["name"] for each in pod["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == named
    probed = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert [each["path"] for each in probed] == ["/healthz", "/healthz", "/readyz"]
    assert pod["securityContext"]["runAsUser"] == texts.CONTAINER_USER
    image = re.findall(r"```dockerfile\n(.*?)```", text, re.DOTALL)[0]
    assert f"USER {texts.CONTAINER_USER}:" in image
    load_verbs(find_words())
    commands = [orjson.loads(each) for each in re.findall(r"(?:CMD|ENTRYPOINT) (\[.*\])", image)]
    assert commands == [["gateway", "health"], ["gateway"], ["serve"]]
    for words in (["health"], ["serve"], container["args"]):
        make_parser().parse_args(words)
