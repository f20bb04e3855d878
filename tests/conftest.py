# SPDX-License-Identifier: Apache-2.0
"""What all tests share: how hypothesis searches."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A loaded machine is slow, not wrong: no deadline an example. CI looks at the same examples every time, so that a
# failure there belongs to the change; a developer's machine looks at new ones.
settings.register_profile("dev", deadline=None, max_examples=100)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "dev")
