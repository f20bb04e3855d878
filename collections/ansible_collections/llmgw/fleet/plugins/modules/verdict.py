#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: llmgw contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: verdict
short_description: Judge one step of a plan over all its hosts
version_added: 0.1.0
description:
  - Runs on the controller, once for a step, after the step's module ran on its hosts with its answer registered.
  - After the first failure it repeats what was known then.
author:
  - llmgw contributors (@llmgw)
options:
  step:
    description: The step, as M(llmgw.fleet.plan) returned it.
    type: dict
    required: true
  register:
    description: Name of the variable in which every host's answer is registered.
    type: str
    required: true
  before:
    description: What this module returned after the step before. Nothing for the first.
    type: dict
    default: {}
  undo:
    description: The step puts back what failed. Its own failure is added to what is told and stops nothing.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Changes nothing on any host. In check mode canaries are not judged.
  diff_mode:
    support: none
    description: Has no difference to show.
"""

EXAMPLES = r"""
- name: Judge the step
  llmgw.fleet.verdict:
    step: "{{ llmgw_step }}"
    register: llmgw_answer
    before: "{{ llmgw_verdict | default({}) }}"
  run_once: true
  register: llmgw_verdict
"""

RETURN = r"""
failure:
  description: The first failure in sentences, the first of them about the step. Empty while every step went well.
  returned: always
  type: list
  elements: str
failed_services:
  description: Services of which the failed wave is to be put back.
  returned: always
  type: list
  elements: str
wave:
  description: Number of the failed wave, as text.
  returned: always
  type: str
overtaken:
  description: Whether a host or gateway refused because another controller was quicker.
  returned: always
  type: bool
taken:
  description:
    - By endpoint what was drained and then begun to be stopped or replaced by the steps so far, the hosts of its units,
      those of them that never said how it ended, and the digest of the process that was to come.
  returned: always
  type: dict
  sample:
    chat/0@n1:
      hosts: [n1]
      silent: [n1]
      process:
canaries:
  description: What each canary of this step did, and whether it passed.
  returned: always
  type: list
  elements: dict
  sample:
    - endpoint: chat/0@n1
      good: 20
      bad: 0
      passed: true
lines:
  description: What happened in this step, one line a unit, model or canary.
  returned: always
  type: list
  elements: str
"""
