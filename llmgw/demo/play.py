# SPDX-License-Identifier: Apache-2.0
"""`python -m llmgw.demo.play PLAYBOOK INVENTORY`: one playbook in a process of its own, which can live in a manager's
namespace.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from llmgw.apply.events import Progress
from llmgw.apply.inputs import find_paths
from llmgw.apply.runner import Run, run_playbook


def main() -> int:
    """Runs the playbook, prints its progress on stdout and its errors on stderr, and returns Ansible's status."""
    playbook, inventory = sys.argv[1:3]
    progress = Progress()

    def show(event: dict[str, Any]) -> None:
        for line in progress.feed(event):
            print(line, flush=True)

    status = run_playbook(Run(playbook, find_paths(Path(inventory))), show)
    for error in progress.errors:
        print(error, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
