# SPDX-License-Identifier: Apache-2.0
"""The demonstration: this machine as a fleet of one, with a real model, a real engine, a real unit and a real
gateway.
"""
