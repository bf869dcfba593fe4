"""Does a run take over what an earlier one measured, and what does it leave for the next?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from preflight.facts.decode import Document
from preflight.facts.results import Bench, Training
from preflight.run.reuse import certificates
from preflight.run.reuse.archive import Archive, state_folder
from preflight.run.reuse.certificates import Asked, Certificate
from preflight.said.errors import UsageError


def recalled(asked: Asked, documents: Mapping[str, Document], *, reuse: timedelta) -> Certificate | str:
    """The certificate of a run up to this old that holds for these nodes, or why there is none."""
    try:
        found = Archive.opened(state_folder()).find(asked)
    except UsageError as error:
        return str(error)
    if isinstance(found, str):
        return found
    return certificates.why_not(found, documents, asked, now=datetime.now(timezone.utc), reuse=reuse) or found


def keep(
    asked: Asked,
    documents: Mapping[str, Document],
    *,
    bench: Bench | None,
    training: Training | None,
    paths: dict[str, float],
) -> str:
    """Write the certificate of a run that ended well; why that cannot be, "" where it is written."""
    now = datetime.now(timezone.utc)
    measured: dict[str, Any] = {"bench": bench, "training": training, "paths": paths}
    certificate = certificates.made(asked.options, documents, asked.checks, **measured, at=now)
    try:
        Archive.opened(state_folder()).keep(asked, certificate)
    except (OSError, UsageError) as error:
        return str(error)
    return ""
