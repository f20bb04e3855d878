# SPDX-License-Identifier: Apache-2.0
"""What is kept of a request that is over: the access log, and why it went where it went."""
