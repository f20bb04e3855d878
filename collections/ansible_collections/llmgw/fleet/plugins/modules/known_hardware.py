#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: llmgw contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: known_hardware
short_description: Tell for which hardware the facts cache holds facts
version_added: 0.1.0
description:
  - Runs on the controller, once for a play, before M(llmgw.fleet.node_facts) reads a part of every host's facts.
  - Its answer is for the option O(llmgw.fleet.node_facts#module:known_key), so that a host whose boot and driver are
    the same need not read its hardware again.
author:
  - llmgw contributors (@llmgw)
options:
  directory:
    description: Directory of the facts cache. It need not exist.
    type: path
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
- name: See which hosts are known
  llmgw.fleet.known_hardware:
    directory: "{{ inventory_dir }}/facts"
  run_once: true
  register: llmgw_known
"""

RETURN = r"""
known:
  description: The hardware key of the stored facts by host. Hosts without whole facts are left out.
  returned: always
  type: dict
"""
