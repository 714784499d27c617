"""Parses values from the command line and from files: Python literals, and parts such as Twin(depth=5). Nothing is evaluated."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from gemrl.core.exceptions import BadValue
from gemrl.core.suggestions import unknown

_PARSE_ERRORS = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)


def parse_literal(text: str) -> Any:
    """The number, string, boolean or tuple that `text` represents."""
    try:
        return ast.literal_eval(text.strip())
    except _PARSE_ERRORS:
        raise BadValue(f"{text!r} is not a Python literal (a number, True, False, a tuple such as (400, 300))") from None


def parse_part(text: str, kinds: Mapping[str, type]) -> Any:
    """The part written as Name or Name(argument, field=argument); arguments are literals or parts."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, (ast.Name, ast.Call)):
            raise ValueError
        return _build(node, kinds)
    except BadValue:
        raise
    except TypeError as error:
        raise BadValue(f"{text!r}: {error}") from None
    except _PARSE_ERRORS:
        raise BadValue(f"{text!r} must have the form Name(...) with literals as arguments") from None


def _build(node: ast.expr, kinds: Mapping[str, type]) -> Any:
    """The part that a name or a call stands for, or the value of a literal."""
    call = node if isinstance(node, ast.Call) else ast.Call(func=node, args=[], keywords=[])
    if not isinstance(call.func, ast.Name):
        if isinstance(node, ast.Call):
            raise ValueError
        return ast.literal_eval(node)
    if call.func.id not in kinds:
        raise unknown("part", call.func.id, kinds, f"; known: {', '.join(kinds)}")
    positional = [_build(argument, kinds) for argument in call.args]
    return kinds[call.func.id](*positional, **{str(keyword.arg): _build(keyword.value, kinds) for keyword in call.keywords})


def split_setting(text: str, option: str = "--set") -> tuple[str, str]:
    """Splits field=value into (field, value); `option` names the setting's origin in error messages."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        hint = " (the environment comes before --set)" if option == "--set" else ", without spaces"
        raise BadValue(f"{option} takes field=value, not {text!r}{hint}")
    return name.strip(), value
