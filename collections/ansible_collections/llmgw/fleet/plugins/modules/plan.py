#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: llmgw contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Compute the plan of the fleet on the controller
version_added: 0.1.0
description:
  - Runs on the controller, once for a play. Reads catalog and facts cache, places every replica and returns the steps
    that close the difference.
  - The Python package C(llmgw) must be installed in the Python that runs Ansible.
author:
  - llmgw contributors (@llmgw)
options:
  catalog:
    description: The catalog, a file or the directory that holds it.
    type: path
    required: true
  facts:
    description: Directory of the facts cache.
    type: path
    required: true
  lost:
    description: Nodes that are declared lost for this run, beside those with the host variable C(llmgw_lost).
    type: list
    elements: str
    default: []
  allow_mass_loss:
    description: Move and stop replicas even when many nodes are lost at once.
    type: bool
    default: false
  settle:
    description: Return only the step that publishes what serves now, after a failure.
    type: bool
    default: false
  in_play:
    description: The hosts that this run may touch. The default are those of the play.
    type: list
    elements: str
  generation:
    description: With O(settle=true), the generation of what is published. The default is one above the highest known.
    type: int
  taken:
    description:
      - With O(settle=true), what the run had begun to stop or to replace, as M(llmgw.fleet.verdict) returned it. Of it
        gets no new requests what is not known to serve on.
    type: dict
    default: {}
  answered:
    description: With O(settle=true), the hosts whose facts were read after the failure.
    type: list
    elements: str
    default: []
  saved:
    description: A plan that C(llmgw plan --out) saved. When another one would be made now, the module fails.
    type: path
attributes:
  check_mode:
    support: full
    description: Changes nothing on any host, so check mode makes no difference.
  diff_mode:
    support: none
    description: Has no difference to show.
"""

EXAMPLES = r"""
- name: Plan
  llmgw.fleet.plan:
    catalog: "{{ inventory_dir }}/catalog.yaml"
    facts: "{{ inventory_dir }}/facts"
  run_once: true
  register: llmgw_plan
"""

RETURN = r"""
steps:
  description:
    - What to do, in order, for the playbook to loop over. Texts of units and bundles lie in files that the steps name,
      which go away with the run.
  returned: always
  type: list
  elements: dict
lines:
  description: What people are to know of the routes that make it true again, one sentence each.
  returned: when O(settle=true)
  type: list
  elements: str
undo_steps:
  description: What puts back, for the playbook to loop over after a failure.
  returned: when O(settle=false)
  type: list
  elements: dict
undo:
  description: By wave and service, the numbers of the undo steps, counted from 0.
  returned: when O(settle=false)
  type: dict
of_host:
  description: By host, the numbers of the steps that concern it, counted from 0.
  returned: when O(settle=false)
  type: dict
undo_of_host:
  description: By host, the numbers of the undo steps that concern it.
  returned: when O(settle=false)
  type: dict
touched:
  description: Hosts that some step concerns, and the gateways. Empty when there is nothing to do.
  returned: when O(settle=false)
  type: list
  elements: str
in_play:
  description: The hosts that this run may touch.
  returned: when O(settle=false)
  type: list
  elements: str
at_once:
  description: How many hosts wait for one another.
  returned: when O(settle=false)
  type: int
by:
  description: Who carries the plan out.
  returned: when O(settle=false)
  type: str
plan_id:
  description: What tells this run from every other.
  returned: when O(settle=false)
  type: str
record:
  description: What the history keeps of it.
  returned: when O(settle=false)
  type: dict
text:
  description: The plan for people, as lines.
  returned: when O(settle=false)
  type: list
  elements: str
summary:
  description: The plan in one sentence.
  returned: when O(settle=false)
  type: str
unplaced:
  description: Replicas that cannot be placed.
  returned: when O(settle=false)
  type: list
  elements: str
refused:
  description: Services that cannot be rolled out.
  returned: when O(settle=false)
  type: list
  elements: str
changes:
  description: Whether there is anything to do.
  returned: when O(settle=false)
  type: bool
problems:
  description: Errors that cost only a part, such as one host's unreadable facts.
  returned: when O(settle=false)
  type: list
  elements: str
"""
