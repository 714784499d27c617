"""Values from the command line and from files: Python literals, and parts such as Twin(depth=5). Nothing is ever evaluated."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from gemrl.core.exceptions import BadValue
from gemrl.core.suggestions import unknown

_NOT_PARSED = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)


def parse_literal(text: str) -> Any:
    """The number, string, boolean or tuple that `text` spells."""
    try:
        return ast.literal_eval(text.strip())
    except _NOT_PARSED:
        raise BadValue(f"{text!r} is not a Python literal (a number, True, False, a tuple such as (400, 300))") from None


def parse_part(text: str, kinds: Mapping[str, type]) -> Any:
    """The part that `text` spells as Name or Name(argument, field=argument); arguments are literals or parts."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, (ast.Name, ast.Call)):
            raise ValueError
        return _build(node, kinds)
    except BadValue:
        raise
    except TypeError as error:
        raise BadValue(f"{text!r}: {error}") from None
    except _NOT_PARSED:
        raise BadValue(f"{text!r} is not of the form Name(...) with literals in it") from None


def _build(node: ast.expr, kinds: Mapping[str, type]) -> Any:
    """The part of a Name or a call of one, or the literal."""
    call = node if isinstance(node, ast.Call) else ast.Call(func=node, args=[], keywords=[])
    if not isinstance(call.func, ast.Name):
        if isinstance(node, ast.Call):
            raise ValueError
        return ast.literal_eval(node)
    if call.func.id not in kinds:
        raise unknown("part", call.func.id, kinds, f"; known: {', '.join(kinds)}")
    positional = [_build(argument, kinds) for argument in call.args]
    return kinds[call.func.id](*positional, **{str(word.arg): _build(word.value, kinds) for word in call.keywords})


def split_setting(text: str, taker: str = "--set") -> tuple[str, str]:
    """field=value as (field, value); `taker` is what a user knows settings by."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        hint = " (the environment comes before --set)" if taker == "--set" else ", without spaces"
        raise BadValue(f"{taker} takes field=value, not {text!r}{hint}")
    return name.strip(), value
