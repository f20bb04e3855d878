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
attributes:
  check_mode:
    support: full
    description: Changes nothing on any host, so check mode makes no difference.
  diff_mode:
    support: none
    description: Has no difference to show.
"""

EXAMPLES = r"""
- name: Judge the step
  llmgw.fleet.verdict:
    step: "{{ llmgw_step }}"
    register: llmgw_answer
  run_once: true
  register: llmgw_verdict
"""

RETURN = r"""
failed_hosts:
  description: Hosts on which the step failed, with the reason.
  returned: always
  type: dict
failure:
  description: The failure in sentences, the first of them about the step. Empty when the step went well.
  returned: always
  type: list
  elements: str
overtaken:
  description: Whether a gateway refused because another controller has published.
  returned: always
  type: bool
lines:
  description: What happened, one line a unit.
  returned: always
  type: list
  elements: str
"""
