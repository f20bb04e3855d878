# SPDX-License-Identifier: Apache-2.0
"""`python -m llmgw` is the command `llmgw`."""

from __future__ import annotations

from llmgw.cli.main import main

if __name__ == "__main__":
    main()
