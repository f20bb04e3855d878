# SPDX-License-Identifier: Apache-2.0
"""`llmgw catalog`: checks the catalog, shows what it means, and prints the schema that editors read (C6)."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from llmgw.cli import exits, options

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="The catalog: check it, show what it means, print its schema.",
)
CATALOG_FORMAT = 1

_Where = Annotated[
    Path | None,
    typer.Argument(
        metavar="PATH",
        envvar="LLMGW_CATALOG",
        help="Catalog file or fleet directory. [default: catalog.yaml beside the inventory]",
        show_default=False,
    ),
]
_Overlays = Annotated[
    list[Path] | None,
    typer.Option("--overlay", metavar="FILE", help="Lay this file over the catalog; may be given several times."),
]


@app.command()
def check(
    path: _Where = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    overlay: _Overlays = None,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Report everything that is wrong with the catalog. Reads no facts and asks no host."""
    from llmgw.catalog.load import load
    from llmgw.errors import LlmgwErrors

    try:
        found = load(_place(path, inventory), overlay or ())
    except LlmgwErrors as errors:
        if not as_json:
            raise
        mistakes = [
            {
                "code": error.code,
                "where": asdict(error.where) if error.where else None,
                "why": error.why,
                "fix": error.fix,
            }
            for error in errors.errors
        ]
        print(json.dumps({"format_version": CATALOG_FORMAT, "ok": False, "errors": mistakes}, indent=2))
        return exits.ERROR
    services = found.catalog.services
    counts = {
        "services": len(services),
        "replicas": sum(service.replicas for service in services),
        "profiles": len({profile.name for service in services for profile in service.profiles}),
        "files": len(found.files),
    }
    if as_json:
        document = {"format_version": CATALOG_FORMAT, "ok": True, "errors": [], "digest": found.catalog.digest}
        print(json.dumps({**document, **counts, "files": found.files}, indent=2))
    else:
        print("ok: " + ", ".join(f"{count} {what if count != 1 else what[:-1]}" for what, count in counts.items()))
    return exits.OK


@app.command()
def show(
    path: _Where = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    overlay: _Overlays = None,
    *,
    origins: Annotated[
        bool, typer.Option("--origins", help="Show what the files say, value by value, and where each comes from.")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Print what the catalog means, as YAML. Files are merged, references followed, every default filled in."""
    from llmgw.catalog.load import load
    from llmgw.catalog.tree import walk

    if origins and as_json:
        raise typer.BadParameter("--origins is for people, --json for programs: give one of them")
    found = load(_place(path, inventory), overlay or ())
    if origins:
        for at, value in walk(found.source.data):
            print(f"{'.'.join(map(str, at))}: {json.dumps(value, ensure_ascii=False)}  # {found.source.where(at)}")
    elif as_json:
        document = {"format_version": CATALOG_FORMAT, "files": found.files, "catalog": asdict(found.catalog)}
        print(json.dumps(document, indent=2))
    else:
        _print_yaml(asdict(found.catalog))
    return exits.OK


@app.command()
def schema(
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference page instead.")] = False,
) -> int:
    """Print the JSON Schema of a catalog file, for editors."""
    from llmgw.catalog.jsonschema import json_schema_text
    from llmgw.catalog.reference import reference

    sys.stdout.write(reference() if markdown else json_schema_text())
    return exits.OK


def _place(path: Path | None, inventory: Path) -> Path:
    if path is not None:
        return path
    return inventory.parent if inventory.is_file() or inventory.suffix else inventory


def _print_yaml(document: dict[str, Any]) -> None:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 4096
    yaml.dump(_plain(document), sys.stdout)


def _plain(value: object) -> object:
    """Lists for tuples, which YAML does not know."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
