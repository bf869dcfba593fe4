"""What does a training say that gave no figure?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.said.errors import NotMeasured
from preflight.testing import healthy

replace = msgspec.structs.replace


def test_a_training_without_ranks_is_not_measured():
    """Never an empty success."""
    training = healthy().training()
    assert training.joined() == training.ranks
    with pytest.raises(NotMeasured, match="node2 hung"):
        replace(training, ranks=(), not_measured="node2 hung").joined()
    with pytest.raises(NotMeasured, match="gave no result"):
        replace(training, ranks=()).joined()
