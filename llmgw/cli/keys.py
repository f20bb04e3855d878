# SPDX-License-Identifier: Apache-2.0
"""`llmgw keys`: makes clients' keys, shows which there are, and takes them out of the catalog (G8). Asks no host.

The catalog gets a key's SHA-256; the key itself is on stdout, once, and nowhere else.
"""

from __future__ import annotations

import json
import secrets
import string
import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmgw.cli import exits, options
from llmgw.cli.style import page, printable

if TYPE_CHECKING:
    from llmgw.catalog.compile import Compiled
    from llmgw.model.replica import ApiKeySpec

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Clients' API keys: make one, show which there are, take one out. Gateways follow with the next apply.",
)
KEYS_FORMAT = 1
PREFIX = "sk-llmgw-"
_LETTERS = string.ascii_letters + string.digits
_LENGTH = 43
"""Letters and digits that are worth 256 bits."""
_SHOWN = 12
_PATH = ("gateway", "keys")

_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name in the catalog, in metrics and in the access log.")
]
_MOST = 1_000_000
_MOST_TOKENS = 10**12


@app.command()
def create(
    name: _Name,
    *,
    services: Annotated[
        list[str] | None,
        typer.Option(
            "--services",
            metavar="SERVICE",
            help="Services that it may use, comma-separated or given several times. [default: all]",
            show_default=False,
        ),
    ] = None,
    max_concurrency: Annotated[
        int | None, typer.Option(min=1, max=_MOST, metavar="N", help="Requests at a time. [default: no limit]")
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, max=_MOST, metavar="N", help="Requests in a minute. [default: no limit]")
    ] = None,
    tokens_per_minute: Annotated[
        int | None,
        typer.Option(min=1, max=_MOST_TOKENS, metavar="N", help="Tokens in a minute, in and out. [default: no limit]"),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(min=-1000, max=1000, metavar="N", help="Of requests that wait, the higher go first. [default: 0]"),
    ] = None,
    catalog: options.Catalog = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    as_json: options.AsJson = False,
) -> int:
    """Make a key, print it once on stdout, and write its SHA-256 with its limits into the catalog.

    The catalog is checked as a whole before the file is replaced. Clients can use the key after the next apply.
    """
    from llmgw.catalog.key_edits import place_for_keys, with_key
    from llmgw.cli.keys_file import read_catalog, replace_file

    given = list(dict.fromkeys(one.strip() for text in services or () for one in text.split(",") if one.strip()))
    sources, before = read_catalog(catalog, inventory)
    _refuse(name, given, before)
    secret = PREFIX + "".join(secrets.choice(_LETTERS) for _letter in range(_LENGTH))
    digest = sha256(secret.encode()).hexdigest()
    limits: dict[str, Any] = {
        "services": tuple(given) or None,
        "max_concurrency": max_concurrency,
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "priority": priority,
    }
    fields = {"sha256": digest, **{field: value for field, value in limits.items() if value is not None}}
    file = place_for_keys((*sources.files, *sources.overlays))
    names = [*(key.name for key in before.catalog.gateway.keys), name]
    after = replace_file(sources, file, with_key(file, name, fields), names)
    where = after.source.where((*_PATH, name), key=True)
    if as_json:
        document = {"format_version": KEYS_FORMAT, "name": name, "key": secret, "sha256": digest, "file": file.path}
        print(json.dumps(document, indent=2))
    else:
        print(secret)
    told = f"added   {name} at {where}: its SHA-256 alone. The key is shown this once."
    if not before.catalog.gateway.keys:
        told += "\nnote:   it is the first key: with it the gateways refuse clients that have none."
    print(printable(f"{told}\nnext:   review and commit the file, then llmgw apply"), file=sys.stderr)
    return exits.OK


@app.command("list")
def show(
    catalog: options.Catalog = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Show the keys of the catalog with their limits. A key itself is stored nowhere.

    SHA256 is the beginning of `printf %s "$KEY" | sha256sum`: by it you find whose key one is.
    """
    from dataclasses import asdict

    from llmgw.cli.keys_file import read_catalog
    from llmgw.cli.table import lines_of

    _sources, found = read_catalog(catalog, inventory)
    keys = found.catalog.gateway.keys
    where = {key.name: found.source.where((*_PATH, key.name), key=True) for key in keys}
    if as_json:
        rows = [{**asdict(key), "where": str(where[key.name])} for key in keys]
        print(json.dumps({"format_version": KEYS_FORMAT, "open": not keys, "keys": rows}, indent=2))
    elif keys:
        head = ("NAME", "SHA256", "SERVICES", "CONCURRENT", "REQUESTS/MIN", "TOKENS/MIN", "PRIORITY", "WHERE")
        print(page(lines_of([head, *((*_cells(key), str(where[key.name])) for key in keys)])))
    else:
        print("no keys: the gateways let everybody in. The first one closes them: llmgw keys create NAME")
    return exits.OK


@app.command()
def revoke(
    name: _Name,
    catalog: options.Catalog = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    *,
    open_to_all: Annotated[
        bool,
        typer.Option("--open-to-all", help="Take out the last key too: without any the gateways let everybody in."),
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Take a key out of the catalog. Gateways refuse it after the next apply; requests that run then still end."""
    from llmgw.catalog.key_edits import has_key, without_key
    from llmgw.catalog.problem import nearest
    from llmgw.cli.keys_file import FILE_CODE, read_catalog, replace_file
    from llmgw.errors import LlmgwError

    sources, before = read_catalog(catalog, inventory)
    names = [key.name for key in before.catalog.gateway.keys]
    if name not in names:
        meant = nearest(name, names)
        fix = f"Did you mean `{meant}`?" if meant else "See `llmgw keys list`."
        raise LlmgwError("key-unknown", f"there is no key `{name}`", where=sources.files[0].path, fix=fix)
    if names == [name] and not open_to_all:
        why = f"`{name}` is the last key, and without any the gateways let everybody in"
        fix = "Make another one first: `llmgw keys create NAME`. If it is meant so, add --open-to-all."
        raise LlmgwError("key-last", why, fix=fix)
    having = [file for file in (*sources.files, *sources.overlays) if has_key(file, name)]
    if len(having) > 1:
        places = " and ".join(file.path for file in having)
        why = f"`{name}` stands in several files: {places}"
        raise LlmgwError(FILE_CODE, why, fix="Take it out of all but one of them yourself, then do this again.")
    file = having[0]
    replace_file(sources, file, without_key(file, name), set(names) - {name})
    if as_json:
        print(json.dumps({"format_version": KEYS_FORMAT, "name": name, "file": file.path}, indent=2))
    told = f"revoked {name} in {file.path}. Until the next apply gateways still take it."
    print(printable(f"{told}\nnext:   review and commit the file, then llmgw apply"), file=sys.stderr)
    return exits.OK


def _refuse(name: str, services: list[str], before: Compiled) -> None:
    """Raises what is wrong with the name or the services, before the file is touched: messages of the catalog's checks
    would name lines that are not there yet.
    """
    import re

    from llmgw.catalog.problem import listed, nearest
    from llmgw.errors import LlmgwError

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name):
        words = "letters, digits, `.`, `_` and `-`, beginning with a letter or digit, at most 80 characters"
        raise typer.BadParameter(f"`{name}` is no name for a key: it has {words}")
    if any(key.name == name for key in before.catalog.gateway.keys):
        where = before.source.where((*_PATH, name), key=True)
        fix = "Take another name, such as one with a number or a date: both keys hold until you revoke the old one."
        raise LlmgwError("key-exists", f"there is a key `{name}` already", where=where, fix=fix)
    known = [str(service.name) for service in before.catalog.services]
    for service in services:
        if service not in known:
            meant = nearest(service, known)
            fix = f"Did you mean `{meant}`?" if meant else f"The catalog has: {listed(known)}."
            raise LlmgwError("key-service", f"there is no service `{service}`", where=before.files[0], fix=fix)


def _cells(key: ApiKeySpec) -> tuple[str, ...]:
    limits = (key.max_concurrency, key.requests_per_minute, key.tokens_per_minute)
    return (
        key.name,
        key.sha256[:_SHOWN],
        ", ".join(key.services) or "all",
        *("-" if limit is None else f"{limit:,}" for limit in limits),
        str(key.priority),
    )
