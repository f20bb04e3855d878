# SPDX-License-Identifier: Apache-2.0
"""How each engine is started and watched: pure functions from a placed member to a command line, environment and rules.

Engine names appear in this package only. Nothing here runs anything.
"""
