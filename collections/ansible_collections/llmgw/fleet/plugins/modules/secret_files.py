#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module llmgw.fleet.secret_files: keeps a node's secrets in files that the service manager alone can read."""

from __future__ import annotations

DOCUMENTATION = r"""
module: secret_files
short_description: Keep the secrets of engines on a node
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Writes each secret into a file of its own in a directory that only its owner can enter, and removes every other file
    there.
  - A unit that names a secret gets it from the service manager as a credential. No value is in a unit, in an argument,
    in what this module returns or in the node's log.
attributes:
  check_mode:
    support: full
    description: Says which secrets would change, and changes none.
  diff_mode:
    support: partial
    description: Names of secrets, never what they hold.
    details: A changed value is shown as a changed name.
  idempotent:
    support: full
    description: The same secrets again are no change.
options:
  directory:
    description:
      - The directory of the secrets, in one that exists. It is made where it is missing.
      - Nothing else may be kept in it.
    type: path
    required: true
  secrets:
    description:
      - Name of a secret to its value. A name is made of lower-case letters, digits, C(.), C(_) and C(-), at most 60
        characters.
      - A value is text, of one line or of several. Line ends after it are left out, which tools that encrypt files add.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: The key that engines ask for
  llmgw.fleet.secret_files:
    directory: /var/lib/llmgw/secrets
    secrets:
      engine-key: "{{ vault_engine_key }}"
"""

RETURN = r"""
written:
  description: Names of the secrets that were new or changed.
  returned: success
  type: list
  elements: str
  sample: [engine-key]
removed:
  description: Names of the files that were removed.
  returned: success
  type: list
  elements: str
  sample: [an-older-key]
"""

import os
import re
import stat
from pathlib import Path
from typing import Any, Iterator, Mapping

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic

ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "secrets": {"type": "dict", "required": True, "no_log": True},
}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


def problems(secrets: Mapping[Any, Any]) -> Iterator[str]:
    """What is wrong with these secrets, one sentence each, by their names alone."""
    for name, value in secrets.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            # It may be a value that stands where a name should, so only its length is told.
            yield (
                f"the name of a secret, of {len(str(name))} characters, is none: use at most 60 lower-case letters, "
                "digits, dots, underscores and hyphens, and begin with a letter or digit"
            )
        elif not isinstance(value, str):
            yield f"{name} is not text: put its value in quotes"
        elif not value.strip():
            yield f"{name} is empty"
        elif "\0" in value:
            yield f"{name} holds a zero byte, which no variable of an engine can"


def wrong(path: Path, content: bytes) -> bool:
    """Whether a file is not there, holds something else, or can be read by others."""
    try:
        status = path.lstat()
        return not stat.S_ISREG(status.st_mode) or not _closed(status, _FILE_MODE) or path.read_bytes() != content
    except FileNotFoundError:
        return True


def _closed(status: os.stat_result, mode: int) -> bool:
    """Whether it has this mode and belongs to the user that this module works as."""
    return stat.S_IMODE(status.st_mode) == mode and status.st_uid == os.geteuid()


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    # What is left of the parameters is returned, names included, and a mistaken name may be a value.
    secrets = module.params.pop("secrets")
    found = list(problems(secrets))
    if found:
        module.fail_json(msg=f"llmgw_secrets: {'; '.join(found)}.")
    try:
        module.exit_json(**carried_out(Path(module.params["directory"]), secrets, check=module.check_mode))
    except OSError as error:
        module.fail_json(msg=f"The secrets cannot be kept: {error}")


def carried_out(directory: Path, secrets: Mapping[str, str], *, check: bool) -> dict[str, Any]:
    """Makes the directory hold these secrets, unless in check mode, and returns what changes."""
    contents = {name: value.rstrip("\r\n").encode("utf-8", "surrogateescape") for name, value in secrets.items()}
    there = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    written = sorted(name for name, content in contents.items() if wrong(directory / name, content))
    removed = sorted(there - set(contents))
    open_to_others = directory.is_dir() and not _closed(directory.stat(), _DIRECTORY_MODE)
    changed = bool(written or removed or open_to_others)
    if changed and not check:
        directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        if open_to_others:
            os.chown(directory, os.geteuid(), -1)
            directory.chmod(_DIRECTORY_MODE)
        for name in written:
            atomic.write(str(directory / name), contents[name], _FILE_MODE)
        for name in removed:
            atomic.remove(str(directory / name))
    before = sorted(there.intersection([*written, *removed]))
    diff = {"before": _listed(directory, before, "a value"), "after": _listed(directory, written, "another value")}
    return {"changed": changed, "written": written, "removed": removed, "diff": diff}


def _listed(directory: Path, names: list[str], held: str) -> str:
    return "".join(f"{directory}/{name} holds {held}\n" for name in names)


if __name__ == "__main__":
    main()
