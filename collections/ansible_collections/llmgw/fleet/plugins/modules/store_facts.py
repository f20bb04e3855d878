#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: llmgw contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: store_facts
short_description: Keep the facts of every host of a play in the facts cache
version_added: 0.1.0
description:
  - Runs on the controller, once for a play, after M(llmgw.fleet.node_facts) ran on every host and was registered.
  - A host that did not answer keeps its last facts and is remembered as unreachable.
author:
  - llmgw contributors (@llmgw)
options:
  directory:
    description: Directory of the facts cache. It is made when it is missing.
    type: path
    required: true
  register:
    description: Name of the variable in which every host's answer of M(llmgw.fleet.node_facts) is registered.
    type: str
    required: true
attributes:
  check_mode:
    support: full
    description: Changes nothing on any host, so check mode makes no difference.
  diff_mode:
    support: none
    description: Has no difference to show.
"""

EXAMPLES = r"""
- name: Keep the facts
  llmgw.fleet.store_facts:
    directory: "{{ inventory_dir }}/facts"
    register: llmgw_discovery
  run_once: true
"""

RETURN = r"""
stored:
  description: Hosts whose facts were stored.
  returned: always
  type: list
  elements: str
missing:
  description: Hosts without fresh facts, with the reason.
  returned: always
  type: dict
"""
