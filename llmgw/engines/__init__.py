# SPDX-License-Identifier: Apache-2.0
"""How each engine is started and watched: pure functions from a placed member to a command line, environment and rules.

What an engine can do at all is in `llmgw.capability`; how it is told so, in this package only. Nothing here runs
anything.
"""
