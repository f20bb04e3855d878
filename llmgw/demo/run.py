# SPDX-License-Identifier: Apache-2.0
"""The demo's course: a service manager, a gateway, an apply, one question; and afterwards everything is taken down
again.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from llmgw.apply.runner import collections_root
from llmgw.demo.ask import ask, request_body
from llmgw.demo.managers import Manager, find_manager
from llmgw.demo.workspace import check_engine, clear, find_model, free_ports, workspace
from llmgw.errors import LlmgwError

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = "smollm2"
FLEET = Path(__file__).parent / "fleet"
LAUNCHER = "ansible_collections/llmgw/fleet/roles/engine/files/llama_server.py"
GATEWAY_UNIT = "llmgw-gateway.service"
EMPTY_CATALOG = "version: 1\nservices: {}\n"


@dataclass(frozen=True, slots=True)
class Demo:
    """One running demo: its folder, its manager, and where its gateway listens."""

    base: Path
    manager: Manager
    port: int
    admin_port: int

    @property
    def url(self) -> str:
        """The gateway's URL."""
        return f"http://127.0.0.1:{self.port}"


def run(*, once: bool, question: str, say: Callable[[str], None]) -> None:
    """The whole demo. `say` gets every line as it comes; with `once` it ends after the answer. Raises LlmgwError."""
    check_engine()
    model = find_model(MODEL_FILE)
    with _ended_by_signals(), workspace() as base:
        _clean_up_after_a_killed_one(base, say)
        say("Looking for a systemd manager ...")
        manager = find_manager(base / "manager")
        demo = Demo(base, manager, *free_ports(2))
        try:
            _refuse_foreign_units(manager)
            say(f"... the {manager.kind.value} one.")
            _serve(demo, model, say)
            _answer(demo, question, say)
            if not once:
                _offer(demo, question, say)
                say("Everything runs until you press Ctrl-C.")
                signal.pause()
        except KeyboardInterrupt:
            say("")
        finally:
            say("Taking everything down ...")
            try:
                _take_down(demo)
            except KeyboardInterrupt:
                say("... cut off: the next demo takes down what is left.")
                raise
            clear(base)
            say("... nothing is left behind.")


def _serve(demo: Demo, model: Path, say: Callable[[str], None]) -> None:
    fleet = demo.base / "fleet"
    shutil.copytree(FLEET, fleet, dirs_exist_ok=True)
    (fleet / "group_vars").mkdir(exist_ok=True)
    (fleet / "group_vars" / "all.json").write_text(json.dumps(_variables(demo, model), indent=1), encoding="utf-8")
    say("Starting the gateway (playbook llmgw.fleet.gateway) ...")
    _play(demo, "llmgw.fleet.gateway", say)
    say("Discovering this machine, planning and applying (playbook llmgw.fleet.apply) ...")
    _play(demo, "llmgw.fleet.apply", say)


def _variables(demo: Demo, model: Path) -> dict[str, object]:
    return {
        "llmgw_scope": demo.manager.scope,
        "llmgw_state_dir": str(demo.base / "state"),
        "llmgw_engine_user": "root",
        "llmgw_engine_commands": {"llama.cpp": [sys.executable, str(collections_root() / LAUNCHER)]},
        "llmgw_model_dirs": [str(model.parent)],
        "llmgw_gateway_user": "root",
        "llmgw_gateway_command": [sys.executable, "-m", "llmgw"],
        "llmgw_gateway_listen": f"127.0.0.1:{demo.port}",
        "llmgw_gateway_admin_listen": f"127.0.0.1:{demo.admin_port}",
        "llmgw_gateway_log": str(demo.base / "gateway.log"),
        "llmgw_gateway_admin_url": f"http://127.0.0.1:{demo.admin_port}",
    }


def _play(demo: Demo, playbook: str, say: Callable[[str], None]) -> None:
    """Run a playbook where the manager can be reached, saying each line of its progress. Raises LlmgwError
    `demo-failed`.
    """
    command = [*demo.manager.argv_prefix, sys.executable, "-m", "llmgw.demo.play", playbook, str(demo.base / "fleet")]
    environment = {**os.environ, **demo.manager.environment}
    with subprocess.Popen(  # noqa: S603 - our own module
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            say(f"  {line.rstrip()}")
    if process.returncode != 0:
        raise LlmgwError("demo-failed", f"{playbook} ended with status {process.returncode}; what it said is above")


def _answer(demo: Demo, question: str, say: Callable[[str], None]) -> None:
    say("")
    say(f"Asking {demo.url} as an OpenAI client would: {question}")
    sys.stdout.write("> ")
    _wait_until_routed(demo)
    for piece in ask(("127.0.0.1", demo.port), MODEL, question):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    say("")


def _offer(demo: Demo, question: str, say: Callable[[str], None]) -> None:
    """What can be done while the demo goes on."""
    body = json.dumps(request_body(MODEL, question))
    say(f"Ask it yourself:  curl -N {demo.url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'")
    say(f"Console:          http://127.0.0.1:{demo.admin_port}/admin")
    say(f"Metrics:          http://127.0.0.1:{demo.admin_port}/metrics")
    program = "llmgw" if shutil.which("llmgw") else Path(sys.executable).parent / "llmgw"
    say(f"The fleet:        {program} plan -i {demo.base / 'fleet'}")


def _wait_until_routed(demo: Demo, deadline_s: float = 30.0) -> None:
    """Until the gateway's own probe has seen the new replica answer."""
    end = time.monotonic() + deadline_s
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", demo.port, timeout=5)
        try:
            connection.request("GET", f"/v1/models/{MODEL}")
            if connection.getresponse().status == http.HTTPStatus.OK:
                return
        except OSError:
            pass
        finally:
            connection.close()
        if time.monotonic() > end:
            raise LlmgwError("demo-failed", f"the gateway did not offer {MODEL} within {deadline_s:.0f} s")
        time.sleep(0.1)


def _take_down(demo: Demo) -> None:
    """Removes the replicas by an apply of an empty catalog, then the gateway's unit, then a private manager with all
    it runs.
    """
    try:
        fleet = demo.base / "fleet"
        if (fleet / "group_vars" / "all.json").exists():
            (fleet / "catalog.yaml").write_text(EMPTY_CATALOG, encoding="utf-8")
            said: list[str] = []
            try:
                _play(demo, "llmgw.fleet.apply", said.append)
            except LlmgwError:
                print("\n".join(said), file=sys.stderr)
                raise
        _systemctl(demo.manager, "disable", "--now", GATEWAY_UNIT)
        (_unit_dir(demo.manager) / GATEWAY_UNIT).unlink(missing_ok=True)
        _systemctl(demo.manager, "daemon-reload")
    finally:
        demo.manager.close()


def _clean_up_after_a_killed_one(base: Path, say: Callable[[str], None]) -> None:
    if (base / "fleet").exists() or (base / "manager").exists():
        say("An earlier demo was cut off: taking down what it left ...")
        _take_down(Demo(base, find_manager(base / "manager"), *free_ports(2)))
        for name in ("fleet", "state", "manager"):
            clear(base / name)


def _refuse_foreign_units(manager: Manager) -> None:
    """The demo applies a catalog to this machine: what another catalog runs here would be taken down by it."""
    found = sorted(path.name for path in _unit_dir(manager).glob("llmgw-*.service"))
    if found:
        raise LlmgwError(
            "demo-not-alone",
            f"this machine runs llmgw units already: {', '.join(found[:5])}",
            where=str(_unit_dir(manager)),
            fix="run the demo on another machine or as another user",
        )


def _unit_dir(manager: Manager) -> Path:
    if manager.scope == "system":
        return Path("/etc/systemd/system")
    environment = {**os.environ, **manager.environment}
    return Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def _systemctl(manager: Manager, *arguments: str) -> None:
    command = [*manager.argv_prefix, "systemctl", *(["--user"] if manager.scope == "user" else []), *arguments]
    environment = {**os.environ, **manager.environment}
    subprocess.run(command, check=False, capture_output=True, timeout=60, env=environment)  # noqa: S603


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the demo as Ctrl-C does: by taking everything down."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
