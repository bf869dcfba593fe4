"""What does NCCL do on a machine with one GPU? ``python -m tests.bench.gpu [OUT]``, over tests/device/prove.sh.

With OUT, a folder that prove.sh has filled (on another machine, say), its rows are printed; without, it is run here, which
takes up to 40 minutes. The noise of the burn-in follows from all its repetitions: the gate of 0.90 must lie above it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

PROVE = Path(__file__).parents[1] / "device" / "prove.sh"
STAGES = ("facts", "nccl", "faults", "devices", "train")
STAGE_SECONDS = 600
NOISY = ("matmul_tflops_per_s", "memory_gbytes_per_s", "to_device_gbytes_per_s", "from_device_gbytes_per_s")


def rows(folder: Path) -> list[tuple[str, str, str, str]]:
    """Stage, name, value and unit of all that was found."""
    found = []
    for stage in STAGES:
        path = folder / f"{stage}.tsv"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found += [(stage, *[*line.split("\t"), "", ""][:3]) for line in lines]
        if not lines:
            found.append((stage, "not run", "", ""))
    return found


def noise(lines: list[str]) -> list[tuple[str, str, str, str]]:
    """Of each figure of the burn-in: the least and the most of its repetitions, over their median."""
    records = [json.loads(line) for line in lines]
    found = []
    for name in NOISY:
        values = [record[name] for record in records if name in record]
        if values:
            middle = statistics.median(values)
            spread = f"{min(values) / middle:.3f} to {max(values) / middle:.3f} x {middle:.4g}"
            found.append(("devices", name, spread, f"of {len(values)}"))
    products = sum(record["products"] for record in records)
    wrong = sum(record["wrong_products"] for record in records)
    return [*found, ("devices", "wrong products", str(wrong), f"of {products}")] if records else found


def main(folder: Path) -> None:
    """Print every row."""
    burned = folder / "devices.jsonl"
    repetitions = burned.read_text(encoding="utf-8").splitlines() if burned.exists() else []
    for stage, name, value, unit in [*rows(folder), *noise(repetitions)]:
        print(f"{stage:8} {name:36} {value:>14} {unit}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            for each in STAGES:
                command = ["env", f"OUT={made}", f"PYTHON={sys.executable}", str(PROVE), each]
                with suppress(subprocess.TimeoutExpired):  # what it has found until then is told, and the next begins
                    subprocess.run(command, check=False, timeout=STAGE_SECONDS, stdout=subprocess.DEVNULL)
            main(Path(made))
