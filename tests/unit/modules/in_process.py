# SPDX-License-Identifier: Apache-2.0
"""Runs a module's main() in this process, with options as Ansible would pass them."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args


def run(
    module: ModuleType, capsys: pytest.CaptureFixture[str], *, check: bool = False, **options: Any
) -> dict[str, Any]:
    """What the module answers, failed or not."""
    arguments = {**options, "_ansible_check_mode": check}
    with patch_module_args(arguments), pytest.raises(SystemExit):
        module.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return answer
