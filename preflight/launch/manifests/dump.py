"""How are documents of Kubernetes written, for people and for kubectl?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Programs as the lines that they are, and nothing by reference."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def yaml_of(documents: Iterable[Any]) -> str:
    """The documents as one file."""
    return "".join(f"---\n{yaml.dump(each, Dumper=_Dumper, sort_keys=False, width=110)}" for each in documents)
