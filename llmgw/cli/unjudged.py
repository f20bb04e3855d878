# SPDX-License-Identifier: Apache-2.0
"""Says that the fabrics of a fleet are not judged, and why: the rest of it can be shown without them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from llmgw.cli.style import printable

if TYPE_CHECKING:
    from llmgw.errors import LlmgwError


def tell(error: LlmgwError) -> None:
    """Says on stderr what is wrong with llmgw_fabrics, and what follows."""
    print(printable(str(error)), file=sys.stderr)
    print("the fabrics are not judged and their column is unknown; plan and apply refuse such values", file=sys.stderr)
