"""Is a mesh of another shape refused?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results import Mesh


@pytest.mark.parametrize(
    "document",
    [
        {"edges": 2, "ok": 2},
        {"edges": 2, "ok": 2, "failed": [], "extra": 1},
        {"edges": "2", "ok": 2, "failed": []},
        {"edges": 2, "ok": 1, "failed": [{"from": "a", "to": "b", "port": 1, "reason": "bad luck"}]},
        {"edges": 2, "ok": 1, "failed": [{"source": "a", "target": "b", "port": 1, "reason": "reset"}]},
    ],
)
def test_a_section_of_another_shape_is_refused(document):
    """A stored run that was edited does not read as something else."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(document, Mesh)
