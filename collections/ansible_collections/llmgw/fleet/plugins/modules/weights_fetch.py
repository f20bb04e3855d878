#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module llmgw.fleet.weights_fetch: weights of models from a hub into a directory."""

from __future__ import annotations

DOCUMENTATION = r"""
module: weights_fetch
short_description: Fetch the weights of models from a Hugging Face hub
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Brings the weights of models into a directory, in the layout of a Hugging Face cache, as engines find them when it
    is their E(HF_HUB_CACHE).
  - Only the files that engines load are fetched. Of several formats of the same weights it is safetensors, if there is
    one.
  - What is there already, whoever brought it, is not fetched again. A run that was interrupted at any moment is gone on
    with by the next one.
  - One host at a time writes to a directory, also when it is on a shared filesystem. Others wait, and then find the
    weights there.
  - It may take hours, so run it with C(async).
requirements:
  - huggingface_hub 0.24 or newer, in the Python that O(python) names. The role llmgw.fleet.weights installs it.
attributes:
  check_mode:
    support: full
    description: Says which weights are missing. The hub is not asked.
  diff_mode:
    support: none
    description: Shows no differences.
  idempotent:
    support: full
    description: A second run with the same options changes nothing, and does not ask the hub.
options:
  directory:
    description: The cache. It is made if it is not there.
    type: path
    required: true
  models:
    description: The models.
    type: list
    elements: dict
    required: true
    suboptions:
      hf_id:
        description: The repository's id on the hub.
        type: str
        required: true
      revision:
        description:
          - A commit, branch or tag.
          - Without one it is V(main), as it is when the weights are first fetched. A newer commit is not fetched later.
        type: str
  python:
    description: The Python that has huggingface_hub.
    type: path
    default: /opt/llmgw/weights/current/bin/python
  endpoint:
    description:
      - Address of the hub, for a mirror. The default is the public one.
      - It may hold a name and a password (C(https://NAME:PASSWORD@HOST)), which no result and no log shows.
    type: str
  token_file:
    description:
      - A file with the token that the hub is asked with. When it is not there, the hub is asked without one.
      - The token itself is never an option, an argument or a result.
    type: path
  timeout_s:
    description: Seconds that all of it may take.
    type: int
    default: 21600
  stall_s:
    description: Seconds without a byte after which a fetch is given up.
    type: int
    default: 600
  margin_bytes:
    description: Bytes that stay free on the filesystem when all is there.
    type: int
    default: 5000000000
"""

EXAMPLES = r"""
- name: The weights of a model
  llmgw.fleet.weights_fetch:
    directory: /srv/models
    models:
      - hf_id: Qwen/Qwen3-32B
  async: 22000
  poll: 10

- name: A gated one, at a commit, from a mirror
  llmgw.fleet.weights_fetch:
    directory: /srv/models
    endpoint: https://hub.example.org
    token_file: /var/lib/llmgw/secrets/hf-token
    models:
      - hf_id: meta-llama/Llama-3.1-8B-Instruct
        revision: 0e9e39f249a16976918f6564b8830bc894c89659
  async: 22000
  poll: 10
"""

RETURN = r"""
models:
  description: What became of each model, in the order of the option, up to one that failed.
  returned: always
  type: list
  elements: dict
  contains:
    hf_id:
      description: The repository's id.
      type: str
    revision:
      description: The revision that was asked for, null when none was.
      type: str
    action:
      description: C(there), C(fetched), or in check mode C(would fetch).
      type: str
    commit:
      description: The commit that is there.
      type: str
    path:
      description: The directory of the weights.
      type: str
    size_bytes:
      description: Bytes of the files that hold the tensors.
      type: int
    fetched_bytes:
      description: Bytes that this run brought.
      type: int
    seconds:
      description: How long it took.
      type: float
  sample:
    - hf_id: Qwen/Qwen3-32B
      revision:
      action: fetched
      commit: 9216db5781bf21249d130ec9da846c4624c16137
      path: /srv/models/models--Qwen--Qwen3-32B/snapshots/9216db5781bf21249d130ec9da846c4624c16137
      size_bytes: 65524252640
      fetched_bytes: 65535705088
      seconds: 812.4
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import fetch, sentences

ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "models": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {"hf_id": {"type": "str", "required": True}, "revision": {"type": "str"}},
    },
    "python": {"type": "path", "default": "/opt/llmgw/weights/current/bin/python"},
    "endpoint": {"type": "str", "no_log": True},
    "token_file": {"type": "path", "no_log": False},
    "timeout_s": {"type": "int", "default": 21600},
    "stall_s": {"type": "int", "default": 600},
    "margin_bytes": {"type": "int", "default": 5_000_000_000},
}


def run(module: AnsibleModule) -> None:
    """Fetches what is missing, one model after another."""
    params = module.params
    endpoint = params["endpoint"]
    if endpoint and sentences.without_password(endpoint) == endpoint:
        # There is nothing to hide, and sentences name the hub. With a password they name it without one.
        module.no_log_values.discard(endpoint)
    done: list[dict[str, Any]] = []
    token_file = params["token_file"] if params["token_file"] and os.path.exists(params["token_file"]) else None
    ends = time.monotonic() + params["timeout_s"]
    for model in params["models"]:
        hf_id, revision = model["hf_id"], model["revision"]
        if module.check_mode:
            seen = fetch.present(params["directory"], hf_id, revision)
            action = fetch.THERE if seen else fetch.WOULD_FETCH
            done.append(vars(fetch.Fetched(hf_id, action, revision)))
            continue
        options = fetch.Options(
            directory=params["directory"],
            python=params["python"],
            endpoint=endpoint,
            token_file=token_file,
            timeout_s=max(0.0, ends - time.monotonic()),
            stall_s=params["stall_s"],
            margin_bytes=params["margin_bytes"],
        )
        try:
            done.append(vars(fetch.fetch(hf_id, revision, options, module.log)))
        except fetch.FetchFailed as failed:
            at = f"@{revision}" if revision else ""
            changed = any(one["action"] == fetch.FETCHED for one in done)
            message = f"{hf_id}{at} could not be fetched to {params['directory']}. {failed}"
            module.fail_json(msg=message, models=done, changed=changed)
    module.exit_json(changed=any(one["action"] != fetch.THERE for one in done), models=done)


def main() -> None:
    """Entry point."""
    os.umask(0o022)  # engines read as another user what is made here
    run(AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True))


if __name__ == "__main__":
    main()
