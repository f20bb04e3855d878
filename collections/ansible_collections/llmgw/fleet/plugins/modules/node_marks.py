#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module llmgw.fleet.node_marks: takes a node or some of its devices out, and back in, by marks on the node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_marks
short_description: Mark a node as cordoned or drained, and devices of it as quarantined
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Writes and removes the marks that keep a node, or some of its devices, out of llmgw's plans.
  - A mark moves nothing by itself. It becomes a fact of the node at the next discovery, and the plan after that goes
    by it.
  - It does not wait for a run that changes the node's units, since none of these marks is about units.
attributes:
  check_mode:
    support: full
    description: Says which marks would change, and changes none.
  diff_mode:
    support: full
    description: Shows each mark's file before and after.
  idempotent:
    support: full
    description: The same options again are no change.
options:
  scope:
    description: The systemd manager that runs the node's units. It only decides what O(state_dir) is by default.
    type: str
    choices: [system, user]
    default: system
  state_dir:
    description:
      - Where llmgw keeps its state on the node.
      - The default is C(/var/lib/llmgw), with O(scope=user) it is C(~/.local/state/llmgw).
    type: path
  cordon:
    description:
      - Whether nothing new comes to this node. Without this option the mark stays as it is.
      - A node that is cordoned already stays so as it was, unless O(reason) is another one.
    type: bool
  drain:
    description: Whether also what runs on this node moves away. As with O(cordon).
    type: bool
  reason:
    description: Why the node is cordoned or drained, in one line. At most 500 characters of it are kept.
    type: str
  by:
    description: Who does it, such as C(ops@ctl1).
    type: str
  plan_id:
    description: The run that does it. It is kept with a quarantine.
    type: str
  generation:
    description: Generation of the plan. Nothing is held against it.
    type: int
  quarantine:
    description:
      - Devices that nothing is placed on until somebody clears them. What is quarantined already stays as it was.
      - Each is a mapping of C(device), its UUID, C(code), that of the finding that it had, and C(message), what was
        found.
    type: list
    elements: dict
    default: []
  clear:
    description: UUIDs of devices that are no longer quarantined, or V(all).
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Nothing new comes here
  llmgw.fleet.node_marks:
    cordon: true
    reason: new kernel
    by: ops@ctl1

- name: The card was replaced
  llmgw.fleet.node_marks:
    clear:
      - GPU-6a1b2c3d-0000-1111-2222-333344445555
"""

RETURN = r"""
marks:
  description: What became of each mark that the options name, those of the node first, then the devices by name.
  returned: unless the options were refused
  type: list
  elements: dict
  contains:
    mark:
      description: C(cordoned), C(drained) or C(quarantined).
      type: str
    device:
      description: The device of a quarantine. Null for the others.
      type: str
    action:
      description:
        - What was done, or in check mode would be done. C(set), C(changed) (another reason), C(removed), C(kept) for
          what was so already, or C(failed) for what could not be done; the module fails then, after all the others.
      type: str
    found:
      description: What was found of a device that is no longer quarantined, if its mark tells.
      type: str
  sample:
    - mark: cordoned
      device:
      action: set
      found:
"""

import time
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic, host_lock, node_marks
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import default_directory, make_directory

ALL = "all"
SET = "set"
CHANGED = "changed"
REMOVED = "removed"
KEPT = "kept"
FAILED = "failed"
_OPTION = {node_marks.CORDONED: "cordon", node_marks.DRAINED: "drain"}
_KEYS = ("device", "code", "message")
_READABLE = 0o644
_LOCK_WAIT_S = 10.0

ARGUMENTS = {
    "scope": {"type": "str", "choices": ["system", "user"], "default": "system"},
    "state_dir": {"type": "path"},
    "cordon": {"type": "bool"},
    "drain": {"type": "bool"},
    "reason": {"type": "str"},
    "by": {"type": "str"},
    "plan_id": {"type": "str"},
    "generation": {"type": "int"},
    "quarantine": {"type": "list", "elements": "dict", "default": []},
    "clear": {"type": "list", "elements": "str", "default": []},
}


class Step(NamedTuple):
    """One mark: what is done about it, its file, and what that holds afterwards (None: it is not there)."""

    mark: str
    device: str | None
    action: str
    path: str
    content: bytes | None
    found: str | None = None


def objections(params: dict[str, Any]) -> list[str]:
    """What is wrong with the options, one sentence each."""
    for one in params["quarantine"]:
        if sorted(one) != sorted(_KEYS) or not all(isinstance(value, str) for value in one.values()):
            return [f"a device to quarantine is told by {', '.join(_KEYS)}, each a text, and by nothing else"]
    named = [one["device"] for one in params["quarantine"]] + [one for one in params["clear"] if one != ALL]
    found = [f"{one!r} is no UUID of a card or MIG instance" for one in named if node_marks.file_name(one) is None]
    both = {one["device"] for one in params["quarantine"]} & set(params["clear"])
    found += [f"{one} is to be quarantined and cleared at once" for one in sorted(both)]
    if ALL in params["clear"] and params["quarantine"]:
        found.append("devices are to be quarantined and all of them cleared at once")
    return found


class MarksLeftError(OSError):
    """Some marks could not be made or taken away; `answer` is what became of the others."""

    def __init__(self, message: str, answer: dict[str, Any]) -> None:
        super().__init__(message)
        self.answer = answer


def steps(host: Host, directory: str, params: dict[str, Any], now: float) -> Iterator[Step]:
    """What there is to do, from the options and what is on the node."""
    present = host.list(directory) or ()
    for mark, option in _OPTION.items():
        if params[option] is not None:
            yield _of_node(host, f"{directory}/{mark}", mark in present, params, now)
    below = f"{directory}/{node_marks.QUARANTINE}"
    marked = {device for device in map(node_marks.device_of, _listed(host, below, params)) if device is not None}
    wanted_devices = {one["device"]: one for one in params["quarantine"]}
    cleared = marked if ALL in params["clear"] else set(params["clear"])
    for device in sorted({*wanted_devices, *cleared}):
        path = f"{below}/{node_marks.file_name(device)}"
        if device in wanted_devices:
            said = _quarantine(wanted_devices[device], params, now)
            yield Step("quarantined", device, KEPT if device in marked else SET, path, said)
        else:
            found = _found(host, path) if device in marked else None
            yield Step("quarantined", device, REMOVED if device in marked else KEPT, path, None, found)


def _listed(host: Host, below: str, params: dict[str, Any]) -> tuple[str, ...]:
    """What is in the directory of the marks of devices. Raises OSError where that must be known and cannot be."""
    if not params["quarantine"] and not params["clear"]:
        return ()
    names = host.list(below)
    if names is None and (host.exists(below) or host.readlink(below) is not None):
        why = "cannot be listed" if host.is_directory(below) else "is no directory: move it away"
        raise OSError(f"{below} {why}")
    return names or ()


def _of_node(host: Host, path: str, there: bool, params: dict[str, Any], now: float) -> Step:
    mark = path.rpartition("/")[2]
    if not params[_OPTION[mark]]:
        return Step(mark, None, REMOVED if there else KEPT, path, None)
    reason = node_marks.text_of(params["reason"])
    said = {"by": node_marks.text_of(params["by"]), "at": round(now, 3), "reason": reason}
    action = SET
    if there:
        before = node_marks.text_of((node_marks.document(host, path) or {}).get("reason"))
        action = KEPT if reason in (None, before) else CHANGED
    return Step(mark, None, action, path, node_marks.content(said))


def _quarantine(wanted: dict[str, Any], params: dict[str, Any], now: float) -> bytes:
    said = {name: wanted[name] if name == "device" else node_marks.text_of(wanted[name]) for name in wanted}
    said.update(since=round(now, 3), by=node_marks.text_of(params["by"]))
    if params["plan_id"] is not None:
        said["plan_id"] = params["plan_id"]
    return node_marks.content(said)


def _found(host: Host, path: str) -> str | None:
    return node_marks.text_of((node_marks.document(host, path) or {}).get("message"))


def carried_out(host: Host, directory: str, params: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """Makes the marks, unless in check mode, and returns what changes. Raises OSError; one that cannot be made or taken
    away keeps nobody from the others, and is told at the end (MarksLeftError).
    """
    planned = list(steps(host, directory, params, time.time()))
    changes = [step for step in planned if step.action != KEPT]
    diff = {step: _difference(host, step) for step in changes}
    tried = {} if check else {step: _made(step) for step in changes}
    left = {step: error for step, error in tried.items() if error is not None}
    marks = [
        {
            "mark": step.mark,
            "device": step.device,
            "action": FAILED if step in left else step.action,
            "found": step.found,
        }
        for step in planned
    ]
    answer = {
        "changed": len(left) < len(changes),
        "marks": marks,
        "diff": [diff[step] for step in changes if step not in left],
    }
    if left:
        raise MarksLeftError("; ".join(str(error) for error in left.values()), answer)
    return answer


def _made(step: Step) -> OSError | None:
    """Why it could not be done; None when it was."""
    try:
        if step.content is not None:
            make_directory(step.path.rpartition("/")[0])
            atomic.write(step.path, step.content, _READABLE)
        elif Path(step.path).is_dir() and not Path(step.path).is_symlink():
            Path(step.path).rmdir()  # made by hand, and a mark as well; what is in it is nobody's to take away
        else:
            atomic.remove(step.path)
    except OSError as error:
        return error
    return None


def _difference(host: Host, step: Step) -> dict[str, str]:
    before = host.read(step.path, node_marks.LONGEST_FILE) or b""
    return {
        "before_header": step.path,
        "after_header": step.path,
        "before": before.decode("utf-8", "replace"),
        "after": (step.content or b"").decode("ascii"),
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    wrong = objections(params)
    if wrong:
        module.fail_json(msg=f"{'; '.join(wrong)}. Nothing was touched.", changed=False)
    host = Host()
    directory = params["state_dir"] or default_directory(params["scope"], host)
    try:
        if module.check_mode:
            module.exit_json(**carried_out(host, directory, params, check=True))
        make_directory(directory)
        with host_lock.hold(f"{directory}/marks.lock", _LOCK_WAIT_S, by=params["by"]):
            module.exit_json(**carried_out(host, directory, params, check=False))
    except MarksLeftError as error:
        rest = " The others were." if error.answer["changed"] else ""
        module.fail_json(msg=f"Not every mark could be made or taken away: {error}.{rest}", **error.answer)
    except (host_lock.LockHeldError, OSError) as error:
        module.fail_json(msg=f"The marks cannot be made: {error}", changed=False)


if __name__ == "__main__":
    main()
