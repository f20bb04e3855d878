# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fleet.lab` builds what the lab's hosts are made of, so that no test has to wait for it."""

from __future__ import annotations

import sys

from tests.fleet.lab.gold import gold
from tests.fleet.lab.layers import say
from tests.fleet.lab.obstacles import obstacles

if found := obstacles():
    sys.exit("lab: " + "; ".join(found))
with gold() as layers:
    say("ready: " + " ".join(str(layer) for layer in layers))
