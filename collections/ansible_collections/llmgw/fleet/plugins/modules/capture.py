#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps everything that discovery reads on a node as one archive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: capture
short_description: Keep what discovery reads on a node as one archive
version_added: 0.1.0
description:
  - Runs the discovery of M(llmgw.fleet.node_facts) and keeps every command's output, every file and every other
    answer that it read, as an archive on the node.
  - C(llmgw facts local --capture FILE) makes the same facts of it on any machine.
  - Secrets are left out. Of the environment of processes only llmgw's own digest is kept, of a published bundle only
    what identifies it, of the token file nothing, and the values of what is named like a secret are masked.
author:
  - The llmgw authors (@llmgw)
requirements:
  - Python 3.8 or newer, Linux
notes:
  - Run it as root to see the processes, units and weights of other users.
options:
  dest:
    description:
      - Where the archive is written on the node, as C(.tar.gz) with mode C(0600). Its directory must exist.
      - A file that is there is replaced.
    type: path
    required: true
  name:
    description:
      - What the machine is called in the capture. The folder inside the archive has this name.
      - The default is the machine's host name.
    type: str
  module_version:
    description: The version of llmgw that is noted in the capture.
    type: str
  redact:
    description:
      - Replace host names, serial numbers, UUIDs, addresses and the names of users' home directories by stand-ins of
        the same shape, before anything is written. Equal values get equal stand-ins.
    type: bool
    default: false
  redact_names:
    description: Names of hosts to replace besides those that the machine itself tells.
    type: list
    elements: str
    default: []
  redact_key:
    description:
      - A secret that decides about the stand-ins. Captures made with one key can be joined.
      - Without it every capture has stand-ins of its own.
    type: str
extends_documentation_fragment:
  - llmgw.fleet.discovery
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
    details: In check mode nothing is read and nothing is written.
  diff_mode:
    description: Will return details on what has changed, or would change, in C(diff) mode.
    support: none
  platform:
    description: Target operating systems.
    platforms: Linux
    support: full
seealso:
  - module: llmgw.fleet.node_facts
"""

EXAMPLES = r"""
- name: Keep what discovery reads
  llmgw.fleet.capture:
    dest: /root/capture.tar.gz
    model_dirs:
      - /srv/models

- name: Keep it without names and addresses, for others to look at
  llmgw.fleet.capture:
    dest: /root/capture.tar.gz
    redact: true
    redact_names: "{{ groups['all'] }}"
"""

RETURN = r"""
dest:
  description: Where the archive is.
  type: str
  returned: always
name:
  description: What the machine is called in the capture. With O(redact=true) it is a stand-in.
  type: str
  returned: when captured
size_bytes:
  description: Size of the archive.
  type: int
  returned: when captured
calls:
  description: How many different questions the machine was asked.
  type: int
  returned: when captured
left_out:
  description: Questions whose answers were too large to keep.
  type: list
  elements: str
  returned: when captured
unanswered:
  description: Questions that the machine did not answer in time.
  type: list
  elements: str
  returned: when captured
"""

from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmgw.fleet.plugins.module_utils.capture import taking
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import parameters
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host


def main() -> None:
    """Runs the module."""
    module = AnsibleModule(
        argument_spec={
            **parameters.SPEC,
            "dest": {"type": "path", "required": True},
            "name": {"type": "str"},
            "module_version": {"type": "str"},
            "redact": {"type": "bool", "default": False},
            "redact_names": {"type": "list", "elements": "str", "default": []},
            "redact_key": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    if module.check_mode:
        module.exit_json(changed=True, dest=given["dest"])
    redaction = taking.Redaction(given["redact_key"], tuple(given["redact_names"])) if given["redact"] else None
    options = replace(parameters.options(given), module_version=given["module_version"])
    try:
        taken = taking.write(Host(), options, given["dest"], given["name"], redaction)
    except OSError as error:
        module.fail_json(msg=f"the capture cannot be written to {given['dest']}: {error.strerror or error}")
    except ValueError as error:
        module.fail_json(msg=str(error))
    else:
        module.exit_json(changed=True, dest=given["dest"], **taken._asdict())


if __name__ == "__main__":
    main()
