#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module llmgw.fleet.replica_units: all units of a host in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: replica_units
short_description: Bring the inference engines' systemd units of a host to what a plan says
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Writes, starts, restarts and removes the units of a host in one call, and waits until every engine serves.
  - A unit is restarted only when what its process was started with differs. A difference in its text alone is written
    in place. A unit that was edited by hand, or by drop-ins of its own, is brought back to its text.
  - Units that the call does not name are left alone.
  - When a unit does not become ready, what was there before is put back and started, and the module fails with one
    sentence for each such unit. The other units of the call stay.
  - The run ends within O(lock_timeout_s), the longest time to stop, the longest time to become ready, and after a
    failure once more the last two. A member of a replica over several nodes that is put back gets twice its time to
    become ready, since the other members are put back once their own time has passed.
attributes:
  check_mode:
    support: full
    description:
      - Computes the same change as a real run, and touches nothing.
      - Fails as a real run does where another process has a port that a unit needs.
  diff_mode:
    support: full
    description: Shows the text of each file before and after.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
options:
  scope:
    description: The systemd manager that runs the units. With V(user) it is that of the user Ansible logs in as.
    type: str
    choices: [system, user]
    default: system
  state_dir:
    description:
      - Where the host remembers what was applied to it.
      - The default is C(/var/lib/llmgw), with O(scope=user) it is C(~/.local/state/llmgw).
    type: path
  present:
    description: Units that should be there and serve.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The unit's file name.
        type: str
        required: true
      text:
        description: The unit's whole text.
        type: str
        required: true
      process_digest:
        description: Digest of what the process is started with.
        type: str
        required: true
      text_digest:
        description: Digest of the text.
        type: str
        required: true
      readiness:
        description: How to tell that the unit is ready.
        type: dict
        required: true
        suboptions:
          kind:
            description:
              - With V(http) the engine is asked whether it is up and which models it serves.
              - V(leader) is for members that do not lead a replica over several nodes. Their unit must be up, and
                their leader, which the other options describe, is asked as with V(http).
              - With V(unit) the unit must stay active for two seconds.
            type: str
            choices: [http, leader, unit]
            required: true
          address:
            description: Address the engine listens on, or its leader's. The default is the loopback.
            type: str
          port:
            description: Port the engine listens on, or its leader's. V(http) and V(leader) need one.
            type: int
          health_path:
            description: Path that answers 200 when the engine is up.
            type: str
            default: /health
          models_path:
            description: Path that lists the models, in the form of OpenAI's API.
            type: str
            default: /v1/models
          expect_model:
            description: Name that must be in the list.
            type: str
          start_timeout_s:
            description: Seconds until the process must be up.
            type: int
            default: 60
          ready_timeout_s:
            description: Seconds until the weights must be served.
            type: int
            default: 600
          listens_while_loading:
            description:
              - Whether the engine opens its port before it has loaded, so that it must be open within start_timeout_s.
              - It says nothing with V(leader).
            type: bool
            default: false
      stop_timeout_s:
        description: Seconds that the process it replaces may take to stop.
        type: int
        default: 90
      environment_files:
        description:
          - Files beside the unit, path to content. They hold no secrets.
          - Their names start with the unit's own, and they lie in O(state_dir) or beside the units.
        type: dict
        default: {}
  absent:
    description: Units that should be stopped and removed.
    type: list
    elements: str
    default: []
  expected:
    description:
      - Text digest of every unit that the plan was made against, by name. When one differs now, nothing is touched.
      - Without this option nothing is compared.
    type: dict
  generation:
    description: Generation of the plan. A host to which a newer one was applied refuses.
    type: int
    required: true
  plan_id:
    description:
      - Tells the plan from another one of the same generation. The host lets only the first of them in.
      - Without this option the generation alone counts.
    type: str
  by:
    description: Who applies the plan, such as C(ops@ctl1), for whoever is refused because of it.
    type: str
  lock_timeout_s:
    description: Seconds to wait for another run on the host to end.
    type: int
    default: 30
"""

EXAMPLES = r"""
- name: One engine
  llmgw.fleet.replica_units:
    generation: 7
    plan_id: 4bf1c0de
    by: ops@ctl1
    present:
      - name: llmgw-chat.0.0.service
        text: "{{ unit.text }}"
        process_digest: "{{ unit.process_digest }}"
        text_digest: "{{ unit.text_digest }}"
        readiness:
          kind: http
          address: 10.0.0.11
          port: 18000
          expect_model: chat

- name: Take a unit away
  llmgw.fleet.replica_units:
    generation: 8
    absent:
      - llmgw-chat.1.0.service
"""

RETURN = r"""
overtaken:
  description: Whether the host refused because another controller's plan was applied to it.
  returned: when it did
  type: bool
units:
  description: What became of each unit that the call names, sorted by name.
  returned: unless the host refused
  type: list
  elements: dict
  contains:
    name:
      description: The unit's file name.
      type: str
    action:
      description:
        - What was done, or in check mode would be done.
        - C(kept) with the state C(failed) is a unit that was left alone, because another process has its port.
      type: str
      sample: restarted
    state:
      description: C(ready), C(failed) or C(absent). In check mode none.
      type: str
    detail:
      description:
        - A sentence about the state.
        - For a failed unit the error that its log names and what to do first, where it names one that is known.
      type: str
    seconds:
      description: How long the unit took to get there.
      type: float
    log_tail:
      description: The last lines that a failed unit printed.
      type: str
    put_back:
      description: Whether what was there before the failure is there again. Null when there was nothing to put back.
      type: bool
    obstacle:
      description: Why what was there before could not even be written again, where that is so.
      type: str
  sample:
    - name: llmgw-chat.0.0.service
      action: created
      state: ready
      detail: it serves chat
      seconds: 41.2
      log_tail:
      put_back:
"""

from contextlib import ExitStack, contextmanager
from typing import Any, Iterator

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmgw.fleet.plugins.module_utils import (
    applied,
    companions,
    host_change,
    host_lock,
    observed,
    port_conflicts,
    unitchange,
    unitfile,
    unwritten,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import FAILED, Readiness
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import StateFiles, default_directory
from ansible_collections.llmgw.fleet.plugins.module_utils.systemd import Manager, SystemdError
from ansible_collections.llmgw.fleet.plugins.module_utils.units_apply import Apply

READINESS = {
    "kind": {"type": "str", "choices": ["http", "leader", "unit"], "required": True},
    "address": {"type": "str"},
    "port": {"type": "int"},
    "health_path": {"type": "str", "default": "/health"},
    "models_path": {"type": "str", "default": "/v1/models"},
    "expect_model": {"type": "str"},
    "start_timeout_s": {"type": "int", "default": 60},
    "ready_timeout_s": {"type": "int", "default": 600},
    "listens_while_loading": {"type": "bool", "default": False},
}
UNIT = {
    "name": {"type": "str", "required": True},
    "text": {"type": "str", "required": True},
    "process_digest": {"type": "str", "required": True},
    "text_digest": {"type": "str", "required": True},
    "readiness": {"type": "dict", "required": True, "options": READINESS},
    "stop_timeout_s": {"type": "int", "default": 90},
    "environment_files": {"type": "dict", "default": {}},
}
ARGUMENTS = {
    "scope": {"type": "str", "choices": ["system", "user"], "default": "system"},
    "state_dir": {"type": "path"},
    "present": {"type": "list", "elements": "dict", "default": [], "options": UNIT},
    "absent": {"type": "list", "elements": "str", "default": []},
    "expected": {"type": "dict"},
    "generation": {"type": "int", "required": True},
    "plan_id": {"type": "str"},
    "by": {"type": "str"},
    "lock_timeout_s": {"type": "int", "default": 30},
}


def wanted_units(present: list[dict[str, Any]]) -> list[host_change.WantedUnit]:
    """The units of the option `present`."""
    return [host_change.WantedUnit(**{**unit, "readiness": Readiness(**unit["readiness"])}) for unit in present]


def objections(wanted: list[host_change.WantedUnit], absent: list[str], directories: tuple[str, ...]) -> list[str]:
    """What is wrong with the options themselves, a sentence each."""
    names = [unit.name for unit in wanted] + absent
    found = [f"{name} is not the name of a replica's unit" for name in names if not unitfile.is_replica_unit(name)]
    found += [f"{name} is named twice" for name in sorted({name for name in names if names.count(name) > 1})]
    found += host_change.text_objections(wanted)
    for unit in wanted:
        if unit.readiness.kind != "unit" and unit.readiness.port is None:
            found.append(f"{unit.name}: its engine cannot be asked without a port")
        said = (companions.objection(unit.name, path, directories) for path in unit.environment_files)
        found += [sentence for sentence in said if sentence is not None]
    return found


def refuse(module: AnsibleModule, reasons: list[str] | tuple[str, ...], remedy: str, **more: Any) -> None:
    """Fails the module, before anything was touched, when there are reasons to."""
    if reasons:
        module.fail_json(msg=f"{'; '.join(reasons)}. Nothing was touched. {remedy}", changed=False, **more)


def refuse_overtaken(module: AnsibleModule, host: Host, state: StateFiles) -> None:
    """Fails the module where another controller's plan was applied that this one does not come after (R9)."""
    generation, plan_id = module.params["generation"], module.params["plan_id"]
    late = applied.overtaken(state.applied(), generation, plan_id, host.clock())
    if late is not None:
        refuse(module, [late], "Wait until that apply has ended, then plan again and apply that.", overtaken=True)


@contextmanager
def locked(module: AnsibleModule, host: Host, state: StateFiles) -> Iterator[None]:
    """Holds the host's lock; in check mode, which writes nothing, it holds none."""
    if module.check_mode:
        yield
        return
    with ExitStack() as held:
        try:
            state.prepare()
            held.enter_context(host_lock.hold(state.lock, module.params["lock_timeout_s"], module.params["by"]))
        except OSError as error:
            refuse(module, [unwritten.why(host, error)], unwritten.remedy(error))
        yield


def run(module: AnsibleModule) -> None:
    """Compares, and unless in check mode carries out."""
    host = Host()
    manager = Manager(host, module.params["scope"])
    state = StateFiles(host, module.params["state_dir"] or default_directory(manager.scope, host))
    wanted = wanted_units(module.params["present"])
    absent = module.params["absent"]
    refuse(
        module,
        objections(wanted, absent, (state.directory, manager.unit_dir)),
        "The plan and this module belong to different versions of llmgw, or the plan was altered.",
    )
    with locked(module, host, state):
        refuse_overtaken(module, host, state)
        units, drop_ins = observed.survey(host, manager, state.directory)
        paths = host_change.companion_paths(units, wanted, drop_ins)
        texts = observed.texts(host, paths)
        change = host_change.compute(units, wanted, absent, manager.unit_dir, contents=texts, drop_ins=drop_ins)
        reasons = host_change.refusals(units, change, module.params["expected"])
        refuse(module, reasons, "Plan again and apply that.")
        if module.check_mode:
            foresee(module, host, change)
        given = module.params
        apply = Apply(host, manager, state, given["generation"], plan_id=given["plan_id"], by=given["by"])
        results = apply.carry_out(change)
    for warning in apply.warnings:
        module.warn(warning)
    answer: dict[str, Any] = {"diff": change.diff, "units": [dict(vars(result)) for result in results]}
    answer["changed"] = any(result.action != unitchange.KEPT for result in results)
    failed = [result for result in results if result.state == FAILED]
    if failed:
        module.fail_json(msg=" ".join(result.sentence for result in failed), **answer)
    module.exit_json(**answer)


def foresee(module: AnsibleModule, host: Host, change: host_change.HostChange) -> None:
    """Ends check mode: with the change, or as the real run would fail for ports that other processes have."""
    blocked = port_conflicts.conflicts(host, change)
    actions = {step.name: unitchange.KEPT if step.name in blocked else step.action for step in change.steps}
    answer: dict[str, Any] = {
        "changed": any(action != unitchange.KEPT for action in actions.values()),
        "diff": change.diff,
        "units": [{"name": name, "action": action} for name, action in actions.items()],
    }
    if blocked:
        module.fail_json(msg=" ".join(f"{name}: {why}." for name, why in sorted(blocked.items())), **answer)
    module.exit_json(**answer)


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        run(module)
    except unwritten.UnwrittenError as error:
        module.fail_json(msg=str(error), changed=False)
    except OSError as error:
        module.fail_json(msg=f"{unwritten.why(Host(), error)}. {unwritten.remedy(error)}")
    except (host_lock.LockHeldError, SystemdError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
