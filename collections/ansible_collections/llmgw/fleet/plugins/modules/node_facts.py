#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Discovers what a node is, has and runs, and returns it as the fact C(llmgw)."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: Discover the hardware, engines, weights and llmgw units of a node
version_added: 0.1.0
description:
  - Reports what placement and rollout need to know of a node as the fact C(llmgw).
  - Reads the system, memory, processors, GPUs (through NVML or C(nvidia-smi)), NVLink and IMEX, InfiniBand and RoCE
    ports, filesystems, weights, engines and llmgw units.
  - A part that cannot be read never fails the module. It is V(null) in the facts, and C(findings) says why.
  - Unknown is V(null) everywhere, never V(0) or V(false).
author:
  - The llmgw authors (@llmgw)
requirements:
  - Python 3.8 or newer, Linux
notes:
  - Parts that O(gather) leaves out are V(null), and C(gathered) lists those that were read.
    M(llmgw.fleet.store_facts) joins them with the facts stored before.
  - Run it as root to see the processes, units and weights of other users.
extends_documentation_fragment:
  - llmgw.fleet.discovery
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
    details: It never changes anything.
  diff_mode:
    description: Will return details on what has changed, or would change, in C(diff) mode.
    support: N/A
    details: It never changes anything.
  facts:
    description: Returns C(ansible_facts).
    support: full
  platform:
    description: Target operating systems.
    platforms: Linux
    support: full
seealso:
  - module: llmgw.fleet.replica_units
"""

EXAMPLES = r"""
- name: Discover a node
  llmgw.fleet.node_facts:
    model_dirs:
      - /srv/models

- name: Show its cards by class
  ansible.builtin.debug:
    msg: "{{ llmgw.gpus | map(attribute='device_class') | community.general.counter }}"

- name: Discover a gateway host that runs in a user's session
  llmgw.fleet.node_facts:
    scope: user
    gateway_bundle: ~/.local/state/llmgw/bundle.json
    gateway_admin_url: http://127.0.0.1:8081

- name: Discover a node with vLLM in a virtual environment of its own
  llmgw.fleet.node_facts:
    engine_commands:
      vllm: /opt/vllm-0.33
"""

RETURN = r"""
ansible_facts:
  description: Facts of this node.
  returned: always
  type: dict
  contains:
    llmgw:
      description: All that llmgw knows of the node. What was not reported or could not be read is V(null).
      returned: always
      type: dict
      contains:
        contract_version:
          description: Version of this document's format.
          type: int
          returned: always
          sample: 1
        collected_at:
          description: When the facts were taken, in seconds since 1970.
          type: float
          returned: always
        hardware_key:
          description: Boot and driver version for which the facts about the hardware hold.
          type: str
          returned: when readable
        gathered:
          description: The parts that were read, V(null) for all.
          type: list
          elements: str
          returned: when O(gather) left some out
        system:
          description: Operating system, kernel, boot, service manager, ports in use.
          type: dict
          returned: when readable
        memory:
          description: Total and available host memory in bytes.
          type: dict
          returned: when readable
        cpu:
          description: Sockets, cores, threads, NUMA nodes and the instruction sets that matter to engines.
          type: dict
          returned: when readable
        driver:
          description: The GPU driver and how the cards were read.
          type: dict
          returned: when there is one
        gpus:
          description:
            - The cards, each with class, memory, health, processes and MIG instances.
            - An empty list means that there are none, V(null) that they are unknown.
          type: list
          elements: dict
          returned: when readable
        filesystems:
          description: Filesystems under the root, the state directory and the model directories, with their space.
          type: list
          elements: dict
          returned: when readable
        weights:
          description: Weights seen in O(model_dirs).
          type: list
          elements: dict
          returned: when directories were given
        engines:
          description: Engines that are installed, with versions.
          type: list
          elements: dict
          returned: when readable
        units:
          description: The llmgw units of the node as they are.
          type: list
          elements: dict
          returned: when readable
        foreign_engines:
          description: Engine processes that hold a card and that llmgw does not own.
          type: list
          elements: dict
          returned: when the cards are readable
        generation:
          description: The highest generation that was applied to this node.
          type: int
          returned: when there was one
        cordoned:
          description: Whether a command keeps new replicas away from this node.
          type: bool
          returned: when readable
        drained:
          description: Whether a command moves the replicas of this node away.
          type: bool
          returned: when readable
        gateway:
          description: The published bundle, and the states of the endpoints as the gateway on this host sees them.
          type: dict
          returned: when asked for
        findings:
          description: What is wrong, each with C(code), C(severity), C(message) and C(remedy).
          type: list
          elements: dict
          returned: always
        probes:
          description: How each part of the discovery went and how long it took.
          type: list
          elements: dict
          returned: always
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import bounded, parameters
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host


def main() -> None:
    """Runs the module."""
    module = AnsibleModule(argument_spec=dict(parameters.SPEC), supports_check_mode=True)
    try:
        facts = asdict(bounded.collect(Host(), parameters.options(module.params)))
    except ValueError as error:
        module.fail_json(msg=str(error))
        return
    module.exit_json(changed=False, ansible_facts={"llmgw": facts})


if __name__ == "__main__":
    main()
