# SPDX-License-Identifier: Apache-2.0
"""The workflow of docs/how-to/review-a-plan.md: what it may do, and that its command lines run as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.fleet_directory import CATALOG, FleetDirectory

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs/examples/llmgw-plan.yml"
WORKFLOW: dict[str, Any] = YAML(typ="safe").load(FILE)
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
ON: dict[str, Any] = WORKFLOW["on"]


def scripts(job: str) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in JOBS[job]["steps"] if "run" in step}


def test_no_job_has_more_than_it_needs() -> None:
    assert WORKFLOW["permissions"] == {}
    assert {name: job.get("permissions", {}) for name, job in JOBS.items()} == {
        "plan": {"contents": "read"},
        "comment": {"pull-requests": "write"},
        "fits": {},
        "plan-main": {"contents": "read"},
        "apply": {"contents": "read"},
    }


def test_what_a_pull_request_may_change_runs_without_secrets_and_on_no_machine_of_ours() -> None:
    assert set(ON) == {"pull_request", "push"}
    assert "secrets." not in FILE.read_text(encoding="utf-8")
    for name in ("plan", "comment", "fits"):
        assert JOBS[name]["runs-on"] == "ubuntu-latest"
    assert not any("checkout" in step.get("uses", "") for step in JOBS["comment"]["steps"])
    for job in JOBS.values():
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


def test_what_a_pull_request_says_reaches_no_script_but_by_the_environment() -> None:
    for job in JOBS.values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")


def test_only_the_main_branch_is_applied_and_only_after_somebody_looked() -> None:
    assert ON["push"]["branches"] == ["main"]
    assert JOBS["plan-main"]["if"] == "github.event_name == 'push'"
    assert JOBS["apply"]["needs"] == "plan-main"
    assert JOBS["apply"]["environment"] == "production"


class Checkout:
    """A checkout in which scripts of the workflow run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "inventory").mkdir(parents=True)
        self.fleet = FleetDirectory(folder / "inventory")
        commands = folder / "bin"
        commands.mkdir()
        self._command(commands / "llmgw", f'exec "{sys.executable}" -m llmgw "$@"')
        self.environment = {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITHUB_REPOSITORY": "you/fleet",
        }

    def stand_in(self, name: str, text: str) -> None:
        """A command of that name that does this."""
        self._command(self.folder / "bin" / name, text)

    def run(self, step: dict[str, Any], **environment: str) -> subprocess.CompletedProcess[str]:
        """The script of a step, as the runner starts it."""
        return subprocess.run(
            [shutil.which("bash") or "bash", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )

    def output(self) -> str:
        """What the scripts told the jobs that come after."""
        return (self.folder / "output").read_text(encoding="utf-8")

    @staticmethod
    def _command(path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "repository")


def with_stored_facts(checkout: Checkout) -> None:
    """The branch with the facts lies where the workflow checks it out."""
    checkout.fleet.facts.rename(checkout.folder / "facts")
    (checkout.folder / "fleet-facts").mkdir()
    (checkout.folder / "facts").rename(checkout.folder / "fleet-facts/facts")


def test_a_pull_request_is_checked_and_planned_by_the_stored_facts(checkout: Checkout) -> None:
    with_stored_facts(checkout)
    steps = scripts("plan")
    checked = checkout.run(steps["Check the catalog"])
    assert (checked.returncode, checked.stderr) == (0, "")
    planned = checkout.run(steps["Plan"])
    assert (planned.returncode, planned.stderr) == (0, "")
    comment = (checkout.folder / "plan.md").read_text(encoding="utf-8")
    assert comment.startswith("### llmgw: 2 replicas change\n")
    assert (checkout.folder / "summary").read_text(encoding="utf-8") == comment
    assert checkout.output() == "status=2\n"


def test_what_has_no_place_is_commented_and_the_check_beside_it_is_red(checkout: Checkout) -> None:
    with_stored_facts(checkout)
    checkout.fleet.catalog(CATALOG.replace("devices: cpu", "devices: h200-141g"))
    assert checkout.run(scripts("plan")["Plan"]).returncode == 0
    assert checkout.output() == "status=3\n"
    (fits,) = scripts("fits").values()
    assert checkout.run(fits, STATUS="3").returncode == 1
    assert checkout.run(fits, STATUS="2").returncode == 0


def test_a_mistake_fails_the_job_and_there_is_no_plan(checkout: Checkout) -> None:
    with_stored_facts(checkout)
    checkout.fleet.catalog(CATALOG.replace("engine: sim", "engine: simm"))
    for name in ("Check the catalog", "Plan"):
        failed = checkout.run(scripts("plan")[name])
        assert failed.returncode == 1
        assert "catalog.yaml:5" in failed.stderr


def test_the_comment_is_written_over_the_one_before(checkout: Checkout) -> None:
    checkout.stand_in("gh", 'echo "$@" > called')
    (step,) = scripts("comment").values()
    assert checkout.run(step, NUMBER="7", GH_TOKEN="none").returncode == 0
    assert (checkout.folder / "called").read_text(encoding="utf-8").split() == [
        *("pr", "comment", "7", "--repo", "you/fleet", "--body-file", "plan.md", "--edit-last", "--create-if-none")
    ]


def test_the_main_branch_is_planned_and_the_plan_is_kept(checkout: Checkout) -> None:
    # `facts refresh` would need the hosts: it is stood in for, and the plan is the real one.
    real = (checkout.folder / "bin/llmgw").read_text(encoding="utf-8").splitlines()[1]
    checkout.stand_in("llmgw", f'if [ "$1 $2" = "facts refresh" ]; then exit 0; fi\n{real}')
    (step,) = scripts("plan-main").values()
    environment = {"LLMGW_FACTS": str(checkout.fleet.facts)}
    planned = checkout.run(step, **environment)
    assert (planned.returncode, planned.stderr) == (0, "saved to plan.json; `llmgw apply plan.json` carries it out\n")
    assert "1. start chat/0, chat/1" in planned.stdout
    assert (checkout.folder / "plan.json").is_file()
    assert checkout.output() == "status=2\n"


@pytest.mark.parametrize(("status", "ends"), [(0, 0), (1, 1), (3, 0), (4, 4)])
def test_an_apply_that_fails_fails_the_job(checkout: Checkout, status: int, ends: int) -> None:
    checkout.stand_in("llmgw", f'echo "$@" > called; exit {status}')
    (step,) = scripts("apply").values()
    assert checkout.run(step).returncode == ends
    assert (checkout.folder / "called").read_text(encoding="utf-8") == "apply plan.json -i inventory\n"


def test_every_command_line_of_it_has_only_options_that_are_there(checkout: Checkout) -> None:
    text = FILE.read_text(encoding="utf-8")
    lines = re.findall(r"(?m)^\s+(?:run: )?(llmgw .*?)(?: >| \|\||$)", text)
    assert len(lines) == 5
    for line in lines:
        words = line.split()
        command = [word for word in words[1:3] if word.isalpha()]
        told = checkout.run({"run": f"llmgw {' '.join(command)} --help"}).stdout
        for option in (word for word in words if word.startswith("-")):
            assert option in told, line
