"""A value in one line, for tables of what was found: its numbers in four digits, and no words."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from tests import found


def figures(value: Any) -> str:
    """A value with its numbers in four digits, and without words."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__ if isinstance(value, msgspec.Struct) else value.__dataclass_fields__
        return f"({' '.join(f'{name}={figures(getattr(value, name))}' for name in fields)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {figures(held)}' for key, held in sorted(value.items(), key=str))}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(figures, value))}]"
    return " ".join(found.values(value)) if isinstance(value, str) and " " in value else str(value)
