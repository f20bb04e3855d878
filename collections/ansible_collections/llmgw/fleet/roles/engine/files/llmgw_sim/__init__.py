# SPDX-License-Identifier: Apache-2.0
"""llmgw-sim, a SIMULATOR of an inference engine for tests and demos: it loads no model, and its answers mean nothing.

Towards its callers it behaves like vLLM. While it loads, its port is taken but connections are refused; then it has
/health, /v1/models, OpenAI's and Anthropic's paths, vLLM's metric names, a bounded running set with a queue, a prefix
cache, and vLLM's two ways of shutting down. With --nnodes it is one rank of a replica over several nodes, with vLLM's
blindness to ranks that are gone. With --faults it also misbehaves on demand.

Standard library only, Python 3.8 and newer: it runs wherever Ansible's modules run.
"""

from __future__ import annotations

VERSION = "1.0"
