# SPDX-License-Identifier: Apache-2.0
"""SGLang's own parser: reads a JSON list of command lines after `sglang serve`, writes what came of each and what it
knows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from importlib.metadata import version
from typing import TextIO

from sglang.cli.serve import _normalize_positional_model_path  # type: ignore[import-not-found]
from sglang.srt.server_args import ServerArgs  # type: ignore[import-not-found]


def main(out: TextIO) -> None:
    """One JSON document from stdin to `out`."""
    parser = argparse.ArgumentParser("sglang serve")
    ServerArgs.add_cli_args(parser)
    answer = {
        "version": version("sglang"),
        "options": {word: _is_deprecated(one) for one in parser._actions for word in one.option_strings},
        "parsed": [_parsed(parser, words) for words in json.load(sys.stdin)],
    }
    out.write(json.dumps(answer))


def _is_deprecated(action: argparse.Action) -> bool:
    help_text = str(action.help or "").lstrip().upper()
    return type(action).__name__.startswith("Deprecated") or help_text.startswith(("DEPRECATED", "(DEPRECATED"))


def _parsed(parser: argparse.ArgumentParser, words: list[str]) -> dict[str, object]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            given = parser.parse_args(_normalize_positional_model_path(words)[0])
    except (SystemExit, Exception) as error:  # noqa: BLE001 - argparse exits, and whatever is raised is the answer
        return {"error": f"{error} {said.getvalue()}"}
    return {"values": {name: _plain(value) for name, value in vars(given).items()}}


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, (bool, int, float, str, list)) else str(value)


if __name__ == "__main__":
    answered, sys.stdout = sys.stdout, sys.stderr  # whatever else is printed is no answer
    main(answered)
