# SPDX-License-Identifier: Apache-2.0
"""Options of the modules that discover a node."""

from __future__ import annotations


class ModuleDocFragment:
    """What every discovery is told: where to look, and how long."""

    DOCUMENTATION = r"""
options:
  scope:
    description: Which systemd manager runs the engines, the system's or that of the user who runs this module.
    type: str
    choices: [system, user]
    default: system
  state_dir:
    description:
      - Where llmgw keeps its state on the node.
      - The default is C(/var/lib/llmgw), and C(~/.local/state/llmgw) with O(scope=user).
    type: path
  prefix:
    description:
      - Where the role P(llmgw.fleet.engine#role) installs engines, C(engines) below it.
      - The default is C(/opt/llmgw); with O(scope=user) it is C(~/.local/share/llmgw), and C(/opt/llmgw) after it.
    type: path
  model_dirs:
    description:
      - Directories in which weights lie. Those that do not exist are skipped.
      - Without this option, or with an empty list, no weights are looked for, and they are reported as unknown.
    type: list
    elements: path
  engine_commands:
    description:
      - Where engines are that lie elsewhere than usual, by kind (V(vllm), V(sglang), V(llama.cpp), V(sim)).
      - The value is the path of a command or of a virtual environment, or a command line as a list of words.
    type: dict
    default: {}
  gateway_bundle:
    description:
      - Path of the published bundle on a gateway host.
      - Only what identifies it is kept, never its routes.
    type: path
  gateway_admin_url:
    description:
      - URL of the gateway's admin listener on this host, for instance C(http://127.0.0.1:8081).
      - When given, the gateway is asked for the states of its endpoints.
    type: str
  gateway_admin_token_file:
    description: File on the host with the bearer token for O(gateway_admin_url).
    type: path
  gather:
    description:
      - What to read, as names of parts (V(cpu), V(topology), V(subnets), V(engines), V(system), V(memory), V(units),
        V(state), V(gpus), V(xids), V(imex), V(rdma), V(storage), V(gateway), V(weights)) and of groups (V(all),
        V(hardware), V(volatile)).
      - A V(!) in front takes a part or group out.
    type: list
    elements: str
    default: [all]
  known_key:
    description:
      - The C(hardware_key) of facts that are known already.
      - When it is not that of the running boot and driver, the hardware is read whatever O(gather) says.
    type: str
  timeout_s:
    description: Seconds that the whole discovery may take. What was not read by then is unknown.
    type: float
    default: 60
"""
