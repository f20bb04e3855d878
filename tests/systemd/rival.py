# SPDX-License-Identifier: Apache-2.0
"""A program: the module replica_units of one of several controllers. Says `ready`, and runs when it is told to.

Reads the module's options as JSON, one line, then waits for another line; prints what the module answers.
"""

from __future__ import annotations

import json
import sys

from ansible.module_utils.testing import patch_module_args

from ansible_collections.llmgw.fleet.plugins.modules import replica_units


def main() -> None:
    options = json.loads(sys.stdin.readline())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    with patch_module_args({**options, "_ansible_check_mode": False}):
        replica_units.main()


if __name__ == "__main__":
    main()
