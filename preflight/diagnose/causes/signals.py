"""In which words do launchers, shells and schedulers say that a process was ended by a signal?"""

from __future__ import annotations

FROM_A_SHELL = 128  # a shell and a container give this much more than the signal's number as exit code
PATTERNS = (
    r"\bexitcode\s*:?\s*CODE\b",  # torchrun, multiprocessing, SageMaker
    r"\bexit code:? +CODE\b",  # Composer, SGLang, srun, Kubernetes
    r"\bexit status:? +CODE\b",
    r"\bexited with code CODE\b",  # Docker
    r"terminated with code -NUMBER\b",  # Lightning
    r"exits with return code = -NUMBER\b",  # DeepSpeed
    r"signal NUMBER \(NAME\)",
    r"terminated with signal NAME\b",  # torch.multiprocessing
    r"died with <signals\.NAME",  # subprocess
    r"(?:on node (?P<node>[\w.-]+) )?exited on signal NUMBER\b",  # mpirun
    r"killed by signal: (?:NUMBER|WORDS)\b",  # Intel MPI, torch's data loader
    r"exit string: WORDS \(signal",  # MPICH
    r"srun: error: (?P<node>[\w.-]+): tasks? [\d,-]+: (?:WORDS|exited with exit code CODE)\b",
    r"line \d+: +\d+ WORDS\b",  # a shell that started it
    r"\bexitcode=-NAME\b",  # multiprocessing
    r"exit codes of the workers are .*\bNAME\(-NUMBER\)",  # joblib
)
CRASHES = (
    r"fatal python error: WORDS\b",  # faulthandler
    r"caught signal NUMBER \(WORDS",  # UCX
    r"caught error: WORDS \(",  # MVAPICH
    r"\] signal: WORDS \(NUMBER\)",  # Open MPI
    r"WORDS \(core dumped\)",  # a shell
    r"\bNAME received at time=",  # Abseil, in Ray and TensorFlow
)


def ended_by(number: int, name: str, words: str) -> tuple[str, ...]:
    """Patterns for the signal with that number, its name and the words of strsignal(3), all in lower case."""
    return _filled(PATTERNS, number, name, words)


def crashed_by(number: int, name: str, words: str) -> tuple[str, ...]:
    """The same for a signal that a fault of the process itself raises, which a library or a shell reports as well."""
    return (*ended_by(number, name, words), *_filled(CRASHES, number, name, words))


def _filled(patterns: tuple[str, ...], number: int, name: str, words: str) -> tuple[str, ...]:
    places = {
        "CODE": rf"(?:-{number}|{FROM_A_SHELL + number})",
        "NUMBER": str(number),
        "NAME": name,
        "WORDS": words,
    }
    for place, filled in places.items():
        patterns = tuple(pattern.replace(place, filled) for pattern in patterns)
    return patterns
