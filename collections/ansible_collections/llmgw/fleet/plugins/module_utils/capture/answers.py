# SPDX-License-Identifier: BSD-2-Clause
"""How the answer of each method of Host is kept, and made again from what was kept.

Private to llmgw. Every public method of Host has its line here; what it is given back is of the same type and equal.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Answer
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Entry, Listing, Response, Result, Size


class Shape(NamedTuple):
    """To an Answer and back. `restore` raises ValueError for what such an answer cannot be."""

    store: Callable[[Any], Answer]
    restore: Callable[[Answer], Any]


def _value(fits: Callable[[Any], bool], made: Callable[[Any], Any] = lambda value: value) -> Shape:
    """Of a value that JSON can hold; `fits` judges it and `made` turns JSON's value into the method's."""

    def restore(answer: Answer) -> Any:
        value = answer.fields.get("value")
        if not fits(value):
            raise ValueError(f"an answer of another kind was expected than {str(value)[:60]!r}")
        return made(value)

    return Shape(lambda value: Answer({"value": _plain(value)}), restore)


def _plain(value: Any) -> Any:
    """The value as JSON gives it back: lists for tuples, named ones included."""
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_sizes(value: Any) -> bool:
    fits = (_or_none(_is_whole), _or_none(_is_text))
    return isinstance(value, list) and all(_are(fits, one) for one in value)


def _is_listing(value: Any) -> bool:
    """Entries as pairs of name and kind, what stopped the listing, and whether there are more."""
    if not _are((lambda entries: isinstance(entries, list), _or_none(_is_text), _is_flag), value):
        return False
    return all(_are((_is_text, _is_text), entry) for entry in value[0])


def _are(fits: Sequence[Callable[[Any], bool]], value: Any) -> bool:
    """Whether a value is a list with one item for each judge, and each item suits its judge."""
    return isinstance(value, list) and len(value) == len(fits) and all(fit(one) for fit, one in zip(fits, value))


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _tuple_or_none(value: Any) -> Any:
    return None if value is None else tuple(value)


def _store_result(result: Result) -> Answer:
    said = {"stdout": result.stdout, "stderr": result.stderr}
    contents = {name: text.encode("utf-8", "replace") for name, text in said.items() if text}
    fields: dict[str, Any] = {"rc": result.rc}
    return Answer({**fields, "timed_out": True} if result.timed_out else fields, contents)


def _restore_result(answer: Answer) -> Result:
    rc = answer.fields.get("rc")
    if not isinstance(rc, int):
        raise ValueError("a command's exit status was expected")  # noqa: TRY004 - of a document, not of an argument
    stdout, stderr = (answer.contents.get(name, b"").decode("utf-8", "replace") for name in ("stdout", "stderr"))
    return Result(rc, stdout, stderr, answer.fields.get("timed_out") is True)


def _store_content(content: bytes | None) -> Answer:
    return Answer({"value": None}) if content is None else Answer({}, {"content": content})


def _restore_content(answer: Answer) -> bytes | None:
    return answer.contents.get("content")


def _store_response(response: Response) -> Answer:
    fields = {"status": response.status, "error": response.error}
    return Answer(fields, {"body": response.body} if response.body else {})


def _restore_response(answer: Answer) -> Response:
    status, error = answer.fields.get("status"), answer.fields.get("error")
    if not _or_none(_is_whole)(status) or not _or_none(_is_text)(error):
        raise ValueError("a status and an error were expected")
    return Response(status, answer.contents.get("body", b""), error)


_RESULT = Shape(_store_result, _restore_result)
_TEXT = _value(_is_text)
_TEXT_OR_NONE = _value(_or_none(_is_text))
_CONTENT = Shape(_store_content, _restore_content)
_YES_OR_NO = _value(_is_flag)

SHAPES = {
    "run": _RESULT,
    "python": _RESULT,
    "which": _TEXT_OR_NONE,
    "read": _CONTENT,
    "extract": _CONTENT,
    "list": _value(_or_none(_are_names), _tuple_or_none),
    "scan": _value(_is_listing, lambda value: Listing(tuple(Entry(*one) for one in value[0]), *value[1:])),
    "readlink": _TEXT_OR_NONE,
    "realpath": _TEXT,
    "exists": _YES_OR_NO,
    "is_directory": _YES_OR_NO,
    "size": _value(_or_none(_is_whole)),
    "measure": _value(_are_sizes, lambda value: tuple(Size(*one) for one in value)),
    "statfs": _value(_or_none(lambda value: _are((_is_whole, _is_whole), value)), _tuple_or_none),
    "clock": _value(_is_number),
    "machine": _TEXT,
    "python_version": _TEXT,
    "home": _TEXT,
    "variable": _TEXT_OR_NONE,
    "fetch": Shape(_store_response, _restore_response),
}
"""Method of Host to the shape of its answers."""

CONTENTS = ("stdout", "stderr", "content", "body")
"""Names under which answers hold bytes."""
