"""Values from the command line and from files: Python literals, and parts such as Twin(depth=5). Nothing is ever evaluated."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from gemrl.errors import BadValue, unknown


def parse_literal(text: str) -> Any:
    """The number, string, boolean or tuple that `text` spells."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise BadValue(f"{text!r} is not a Python literal (a number, True, False, a tuple such as (400, 300))") from None


def parse_part(text: str, kinds: Mapping[str, type]) -> Any:
    """The part that `text` spells as Name or Name(literal, field=literal)."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        call = node if isinstance(node, ast.Call) else ast.Call(func=node, args=[], keywords=[])
        if not isinstance(call.func, ast.Name):
            raise ValueError
        positional = [ast.literal_eval(argument) for argument in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise BadValue(f"{text!r} is not of the form {next(iter(kinds))}(...) with literals in it") from None
    if call.func.id not in kinds:
        raise unknown("part", call.func.id, kinds, f"; known: {', '.join(kinds)}")
    try:
        return kinds[call.func.id](*positional, **named)
    except TypeError as error:
        raise BadValue(f"{text!r}: {error}") from None


def split_setting(text: str) -> tuple[str, str]:
    """field=value as (field, value)."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise BadValue(f"--set takes field=value, not {text!r}")
    return name.strip(), value
