#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: llmgw contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: record
short_description: Keep the history of applies on the controller
version_added: 0.1.0
description:
  - Runs on the controller, twice in an apply that changes something, when it begins to carry out its plan and when it
    ends. Writes one file an apply, and keeps the files of its catalog, so that it can be rolled back to.
  - A history that cannot be written is told in a warning and fails nothing.
author:
  - llmgw contributors (@llmgw)
options:
  directory:
    description: Directory of the history.
    type: path
    required: true
  id:
    description: The id of this apply, the same in both calls.
    type: str
    required: true
  phase:
    description: Whether the apply begins or ends.
    type: str
    required: true
    choices: [begin, end]
  record:
    description: What M(llmgw.fleet.plan) said that the history is to keep. For O(phase=begin).
    type: dict
    default: {}
  command:
    description: What began the apply.
    type: str
    default: playbook
  outcome:
    description: How it ended. For O(phase=end).
    type: str
    choices: [done, failed, overtaken]
  failure:
    description: Why it failed, in sentences.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
    description: Writes nothing in check mode.
  diff_mode:
    support: none
    description: Has no difference to show.
"""

EXAMPLES = r"""
- name: Write that the apply begins
  llmgw.fleet.record:
    directory: "{{ inventory_dir }}/history"
    id: "{{ llmgw_plan.plan_id }}"
    phase: begin
    record: "{{ llmgw_plan.record }}"
  run_once: true

- name: Write how it ended
  llmgw.fleet.record:
    directory: "{{ inventory_dir }}/history"
    id: "{{ llmgw_plan.plan_id }}"
    phase: end
    outcome: done
  run_once: true
"""

RETURN = r"""
recorded:
  description: Whether all of it was written.
  returned: always
  type: bool
problems:
  description: Why the history is not what it should be, and what to do about it. Told as warnings too.
  returned: always
  type: list
  elements: str
"""
