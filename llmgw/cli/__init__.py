# SPDX-License-Identifier: Apache-2.0
"""The command line: one command group a file, imported when it is called. stdout carries data, stderr messages."""
