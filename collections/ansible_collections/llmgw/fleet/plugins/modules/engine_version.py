#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module llmgw.fleet.engine_version: one version of an engine becomes the current one of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_version
short_description: Install a version of an inference engine beside those that run
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Puts a version of an engine into a folder of its own, C(KIND/VERSION) below O(root), and then moves the symbolic
    link C(KIND/current) to it in one step. No running engine is touched or restarted.
  - A folder counts only when all of it is there. An installation that was interrupted is begun anew.
  - When anything but the version decides what is in the folder (O(extras), O(constraints), O(locked), O(programs),
    another O(package) or O(python)), the folder's name ends with a digest of it, so that a change of those is a
    new folder too.
  - Older versions stay as long as a unit, what llmgw would put back of a unit, or a process names their path, and
    O(keep) more of them besides. Then they are removed. Folders that this module did not make are left alone.
  - While a process runs that was started through C(KIND/current), none is removed, for the link may have moved since.
  - Below a O(root) on a filesystem that other machines share, none is removed, because what they use cannot be told.
attributes:
  check_mode:
    support: full
    description: Says what would be installed, made current and removed, and touches nothing.
  diff_mode:
    support: full
    description: Shows which version is current, and which are there.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
options:
  kind:
    description: The engine, which is also the name of its folder.
    type: str
    required: true
  root:
    description: The folder of all engines.
    type: path
    required: true
  version:
    description: The version that becomes the current one.
    type: str
    required: true
  package:
    description: The Python package. Without it no virtual environment is made, and O(programs) are all there is.
    type: str
  extras:
    description: More requirements for pip, in its own words.
    type: list
    elements: str
    default: []
  constraints:
    description: Constraints for pip, a line each.
    type: list
    elements: str
    default: []
  locked:
    description:
      - The text of a requirements file that pins every package with its hashes. Then it alone says what is installed,
        and pip refuses a file whose checksum differs.
    type: str
    default: ""
  index_url:
    description: The package index; that of the host's pip when it is empty.
    type: str
    default: ""
  extra_index_urls:
    description: More package indexes.
    type: list
    elements: str
    default: []
  wheelhouse:
    description: A folder of wheels on the host. Then no index is asked.
    type: str
    default: ""
  python:
    description: The host's Python that the virtual environment is made with.
    type: str
    default: python3
  programs:
    description: Programs to write into C(bin), name to text. The environment's Python runs those without a C(#!) line.
    type: dict
    default: {}
  native:
    description:
      - A command. Where the host has it, and nothing of this engine is installed below O(root), it is used as it is
        and nothing is installed.
    type: str
    default: ""
  keep:
    description: Older versions that stay although nothing names them.
    type: int
    default: 1
  scope:
    description: Whose systemd manager's units are looked at before a version is removed.
    type: str
    choices: [system, user]
    default: system
  state_dir:
    description:
      - Where llmgw keeps its state on the host.
      - The default is C(/var/lib/llmgw), with O(scope=user) it is C(~/.local/state/llmgw).
    type: path
  timeout_s:
    description: Seconds that pip may take.
    type: int
    default: 3600
  lock_timeout_s:
    description: Seconds to wait for another run on the host to end.
    type: int
    default: 30
"""

EXAMPLES = r"""
- name: A version of vLLM
  llmgw.fleet.engine_version:
    kind: vllm
    root: /opt/llmgw/engines
    version: 0.33.0
    package: vllm
    python: python3.12
"""

RETURN = r"""
path:
  description: The folder of the version that is current, or the native command that is used instead.
  returned: success
  type: str
  sample: /opt/llmgw/engines/vllm/0.33.0
installed:
  description: Whether the version was installed by this run, or would be in check mode.
  returned: success
  type: bool
removed:
  description: The versions that were removed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [0.31.0]
used:
  description: The older versions that stay because something names their path.
  returned: success
  type: list
  elements: str
  sample: [0.32.0]
"""

import os
from contextlib import nullcontext
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmgw.fleet.plugins.module_utils import engine_build, engine_users, host_lock
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_store import (
    COMPLETE,
    FOREIGN,
    Store,
    StoreError,
    folder_name,
    unneeded,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import default_directory
from ansible_collections.llmgw.fleet.plugins.module_utils.systemd import Manager

# Ansible writes a module's options to the node's journal, but for those with no_log: addresses may carry a password,
# and the long texts would bury everything else.
ARGUMENTS = {
    "kind": {"type": "str", "required": True},
    "root": {"type": "path", "required": True},
    "version": {"type": "str", "required": True},
    "package": {"type": "str"},
    "extras": {"type": "list", "elements": "str", "default": []},
    "constraints": {"type": "list", "elements": "str", "default": []},
    "locked": {"type": "str", "default": "", "no_log": True},
    "index_url": {"type": "str", "default": "", "no_log": True},
    "extra_index_urls": {"type": "list", "elements": "str", "default": [], "no_log": True},
    "wheelhouse": {"type": "str", "default": ""},
    "python": {"type": "str", "default": "python3"},
    "programs": {"type": "dict", "default": {}, "no_log": True},
    "native": {"type": "str", "default": ""},
    "keep": {"type": "int", "default": 1},
    "scope": {"type": "str", "choices": ["system", "user"], "default": "system"},
    "state_dir": {"type": "path"},
    "timeout_s": {"type": "int", "default": 3600},
    "lock_timeout_s": {"type": "int", "default": 30},
}
DEFAULT_PYTHON = "python3"


def recipe(given: dict[str, Any]) -> dict[str, Any]:
    """What besides the version decides what a folder holds; empty values are the usual ones."""
    package = given["package"]
    return {
        "package": package if package != given["kind"] else None,
        "python": given["python"] if package and given["python"] != DEFAULT_PYTHON else None,
        "extras": given["extras"],
        "constraints": given["constraints"],
        "locked": given["locked"],
        "programs": given["programs"],
    }


def install(store: Store, name: str, given: dict[str, Any]) -> None:
    """Fills the folder of a version and marks it as complete. Raises BuildError, StoreError and OSError: then nothing
    of it is left.
    """
    about = {key: given[key] for key in ("kind", "version", "package")}
    folder = store.begin(name, about)
    try:
        if given["package"]:
            about["python"] = engine_build.environment(folder, given["python"], given["timeout_s"])
            told = {field: given[field] for field in engine_build.Packages._fields}
            engine_build.packages(folder, engine_build.Packages(**told), given["timeout_s"])
        engine_build.programs(folder, given["programs"])
    except (engine_build.BuildError, OSError):
        store.remove(name)
        raise
    store.finish(name, about)


def doomed(host: Host, store: Store, name: str, given: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Names of the older versions that may go, and of those that are in use, once `name` is the current one."""
    older = [version for version in store.versions() if version.name != name]
    manager = Manager(host, given["scope"])
    state_dir = given["state_dir"] or default_directory(given["scope"], host)
    folders = {store.folder(version.name): version.name for version in older}
    found = engine_users.used(host, list(folders), (manager.unit_dir, f"{state_dir}/last-good"))
    used = [folders[folder] for folder in found]
    return unneeded(older, name, used, max(0, given["keep"])), used


def run(module: AnsibleModule) -> None:
    """Looks, and unless in check mode installs, makes current and removes."""
    given = module.params
    host = Host()
    store = Store(given["root"], given["kind"])
    before = store.current()
    native = host.which(given["native"]) if given["native"] and before is None else None
    if native:
        module.exit_json(changed=False, path=native, installed=False, removed=[], used=[])
    name = folder_name(given["version"], recipe(given))
    if not module.check_mode:
        os.makedirs(store.directory, mode=0o755, exist_ok=True)
    with nullcontext() if module.check_mode else host_lock.hold(store.folder(".lock"), given["lock_timeout_s"]):
        state = store.state(name)
        if state == FOREIGN:
            raise StoreError(f"{store.folder(name)} was not made by llmgw: move it away, or name another version")
        there = [version.name for version in store.versions() if version.complete]
        if not module.check_mode:
            store.sweep()
            if state != COMPLETE:
                install(store, name, given)
            if before != name:
                store.make_current(name)
        removed, used = doomed(host, store, name, given)
        if removed and engine_users.others_may_use(host, store.directory):
            module.warn(
                f"{store.directory} is on a filesystem that other machines share, so nothing is removed there. What no "
                f"node uses any more is yours to remove: this one does not use {', '.join(removed)}"
            )
            removed = []
        if not module.check_mode:
            for one in removed:
                store.remove(one)
    after = sorted({*there, name} - set(removed))
    module.exit_json(
        changed=state != COMPLETE or before != name or bool(removed),
        path=store.folder(name),
        installed=state != COMPLETE,
        removed=removed,
        used=used,
        diff={"before": told(store, before, sorted(there)), "after": told(store, name, after)},
    )


def told(store: Store, current: str | None, names: list[str]) -> str:
    """What is shown of a state: each version, and which is current."""
    return "".join(f"{store.folder(name)}{' (current)' if name == current else ''}\n" for name in names)


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    os.umask(0o022)  # engines run as another user
    try:
        run(module)
    except (engine_build.BuildError, StoreError, host_lock.LockHeldError, OSError) as error:
        module.fail_json(msg=f"{module.params['kind']}: {error}")


if __name__ == "__main__":
    main()
