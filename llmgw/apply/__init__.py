# SPDX-License-Identifier: Apache-2.0
"""Carrying out: reads the inputs of a decision, turns a plan into the steps a playbook loops over, and runs that
playbook.
"""
