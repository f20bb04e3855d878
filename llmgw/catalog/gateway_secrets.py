# SPDX-License-Identifier: Apache-2.0
"""By which variable a gateway has a secret of the catalog (R10)."""

from __future__ import annotations


def secret_variable(name: str) -> str:
    """The variable by which a gateway has the secret of that name: `LLMGW_SECRET_ENGINE_KEY` for `engine-key`."""
    return "LLMGW_SECRET_" + "".join(one if one.isalnum() else "_" for one in name).upper()
