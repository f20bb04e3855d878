# SPDX-License-Identifier: Apache-2.0
"""The admin listener: API, metrics and the documents behind them. Reads only."""
