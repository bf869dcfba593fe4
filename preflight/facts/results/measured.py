"""What do all sections of report.json that hold measurements have in common?"""

from __future__ import annotations

import msgspec


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of every section: frozen, and strict when a stored run is read again."""
