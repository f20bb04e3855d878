# SPDX-License-Identifier: Apache-2.0
"""vLLM's own parser: reads a JSON list of command lines after `vllm`, writes what came of each and what it knows."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import sys
from typing import TextIO

import vllm  # type: ignore[import-not-found]
from vllm.engine.arg_utils import AsyncEngineArgs  # type: ignore[import-not-found]
from vllm.entrypoints.cli.serve import ServeSubcommand  # type: ignore[import-not-found]
from vllm.envs import environment_variables  # type: ignore[import-not-found]
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]


def main(out: TextIO) -> None:
    """One JSON document from stdin to `out`."""
    serve, parser = ServeSubcommand(), FlexibleArgumentParser()
    served = serve.subparser_init(parser.add_subparsers(dest="subparser"))
    deprecated = set(getattr(served, "_deprecated", ())) | {one for one in served._actions if _is_deprecated(one)}
    answer = {
        "version": vllm.__version__,
        "options": {word: one in deprecated for one in served._actions for word in one.option_strings},
        "variables": sorted(environment_variables),
        "parsed": [_parsed(serve, parser, words) for words in json.load(sys.stdin)],
    }
    out.write(json.dumps(answer))


def _is_deprecated(action: object) -> bool:
    help_text = str(getattr(action, "help", None) or "").lstrip().upper()
    return bool(getattr(action, "deprecated", False)) or help_text.startswith(
        ("DEPRECATED", "[DEPRECATED", "(DEPRECATED")
    )


def _parsed(serve: ServeSubcommand, parser: FlexibleArgumentParser, words: list[str]) -> dict[str, object]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            given = parser.parse_args(words)
            serve.validate(given)
            engine = AsyncEngineArgs.from_cli_args(given)
    except (SystemExit, Exception) as error:  # noqa: BLE001 - argparse exits, and whatever is raised is the answer
        return {"error": f"{error} {said.getvalue()}"}
    values = {name: _plain(value) for name, value in vars(given).items()}
    values |= {one.name: _plain(getattr(engine, one.name)) for one in dataclasses.fields(engine)}
    return {"values": values | {"model": given.model_tag}}


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return str(value)


if __name__ == "__main__":
    answered, sys.stdout = sys.stdout, sys.stderr  # whatever else is printed is no answer
    main(answered)
