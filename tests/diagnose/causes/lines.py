"""What is found in one line?"""

from __future__ import annotations

from preflight.diagnose import diagnose


def found(line: str) -> str:
    """The name of the first cause, or of what follows from one."""
    diagnosis = diagnose([line])
    findings = [*diagnosis.causes, *diagnosis.consequences]
    return findings[0].cause.name if findings else ""
