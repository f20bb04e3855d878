# SPDX-License-Identifier: Apache-2.0
"""`llmgw catalog`: checks the catalog, shows what it means, and prints the schema that editors read (C6)."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmgw.cli import exits, options
from llmgw.cli.cells import plural
from llmgw.cli.style import printable

if TYPE_CHECKING:
    from llmgw.errors import LlmgwError

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
        help="Catalog file or fleet directory, the same as --catalog. [default: catalog.yaml beside the inventory]",
        show_default=False,
    ),
]
_Overlays = Annotated[
    list[Path] | None,
    typer.Option("--overlay", metavar="FILE", help="Lay this file over the catalog; may be given several times."),
]


@app.command()
def check(
    context: typer.Context,
    path: _Where = None,
    catalog: options.Catalog = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    overlay: _Overlays = None,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Report everything that is wrong with the catalog, and warn of what is likely a slip. Asks no host.

    Device classes are looked up in the facts stored beside the catalog too, where there are any.
    """
    from llmgw.catalog.doubts import doubts
    from llmgw.catalog.load import load
    from llmgw.errors import LlmgwErrors

    place = _place(context, path or catalog, inventory)
    try:
        found = load(place, overlay or ())
    except LlmgwErrors as errors:
        if as_json:
            mistakes = [_problem(error) for error in errors.errors]
            document = {"format_version": CATALOG_FORMAT, "ok": False, "errors": mistakes, "warnings": []}
            print(json.dumps(document, indent=2))
        else:
            told = [*errors.errors, plural(len(errors.errors), "error")]
            print("\n".join(printable(one) for one in told), file=sys.stderr)
        return exits.ERROR
    warnings = doubts(found, cache(partial(_seen, place)))
    services = found.catalog.services
    counts = {
        "services": len(services),
        "replicas": sum(service.replicas for service in services),
        "profiles": len({profile.name for service in services for profile in service.profiles}),
        "files": len(found.files),
    }
    if as_json:
        document = {"format_version": CATALOG_FORMAT, "ok": True, "errors": [], "digest": found.catalog.digest}
        likely = {"warnings": [_problem(one) for one in warnings]}
        print(json.dumps({**document, **likely, **counts, "files": found.files}, indent=2))
    else:
        for one in warnings:
            print(printable(f"{one.where}: warning: {one.why} [{one.code}]\n    fix: {one.fix}"), file=sys.stderr)
        numbers = [plural(count, what[:-1]) for what, count in counts.items()]
        numbers += [plural(len(warnings), "warning")] if warnings else []
        print(f"ok: {', '.join(numbers)}")
    return exits.OK


@app.command()
def show(
    context: typer.Context,
    path: _Where = None,
    catalog: options.Catalog = None,
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
    found = load(_place(context, path or catalog, inventory), overlay or ())
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


def _place(context: typer.Context, path: Path | None, inventory: Path) -> Path:
    """Where the catalog is. Raises BadParameter where two are named."""
    sources = [context.get_parameter_source(name) for name in ("path", "catalog")]
    if all(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise typer.BadParameter("PATH and --catalog both name a catalog: give one of them")
    if path is not None:
        return path
    return inventory.parent if inventory.is_file() or inventory.suffix else inventory


def _problem(error: LlmgwError) -> dict[str, Any]:
    where = asdict(error.where) if error.where else None
    return {"code": error.code, "where": where, "why": error.why, "fix": error.fix}


def _seen(place: Path) -> dict[str, int]:
    """The device classes in the facts stored beside the catalog, each with the most that one node has."""
    from llmgw.fleet import store
    from llmgw.fleet.devices import devices_of

    most: dict[str, int] = {}
    for stored in store.load_all((place if place.is_dir() else place.parent) / "facts").values():
        devices = (devices_of(stored.facts) if stored.facts else None) or ()
        for name, count in Counter(one.device_class for one in devices if one.device_class).items():
            most[name] = max(count, most.get(name, 0))
    return most


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
