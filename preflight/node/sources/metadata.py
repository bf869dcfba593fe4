"""Which distributions are installed, in which version, and which versions do they want of each other?"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENDINGS = (".dist-info", ".egg-info")
# Their version is read from the METADATA file: the folder's name lies when files of another version are mounted in.
READ_METADATA = ("torch", "accelerate", "deepspeed", "transformers")
# The packages whose requirements are read, and on which others: they break when only one of them is upgraded.
DEMANDING = (
    *(
        "torch",
        "torchvision",
        "torchaudio",
        "accelerate",
        "deepspeed",
        "transformers",
        "flash-attn",
        "xformers",
        "vllm",
    ),
    *("peft", "trl", "lightning", "pytorch-lightning", "transformer-engine-torch", "megatron-core", "bitsandbytes"),
)
DEMANDED = (*DEMANDING, "numpy", "triton", "tokenizers", "huggingface-hub", "safetensors", "ray", "datasets")


def installed(path: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Every installed distribution: version, and the file or folder with its metadata; the first on the path holds."""
    found: dict[str, tuple[str, str]] = {}
    for folder in path:
        for entry in sorted(name for name in names_in(folder) if name.endswith(ENDINGS)):
            stem, _, ending = entry.rpartition(".")
            name, _, version = stem.partition("-")
            name = normalised(name)
            if name and name not in found:
                if name in READ_METADATA or not version:
                    version = metadata_version(f"{folder}/{entry}") or version
                version = version.partition("-py")[0] if ending == "egg-info" else version
                found[name] = version, f"{folder}/{entry}"
    return found


def normalised(name: str) -> str:
    """The name as PEP 503 writes it."""
    name = name.lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name


def metadata_version(entry: str) -> str:
    """The Version line of a distribution's metadata, or the empty string."""
    files = (f"{entry}/METADATA", f"{entry}/PKG-INFO") if os.path.isdir(entry) else (entry,)
    for file in files:
        for line in headers(file):
            if line.startswith("Version:"):
                return line.partition(":")[2].strip()
    return ""


def requirements(packages: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, str]]:
    """What the packages of DEMANDING want of those of DEMANDED and of NVIDIA's libraries: "torch" -> "==2.13.0"."""
    of_wheels = {name: packages[name][1] for name in DEMANDING if name in packages}
    found = {name: required(f"{entry}/METADATA") for name, entry in of_wheels.items() if entry.endswith(".dist-info")}
    return {name: version for name, version in found.items() if version}


def required(file: str) -> dict[str, str]:
    """The versions in the Requires-Dist lines of a METADATA file, without those of extras and other machines."""
    found: dict[str, str] = {}
    for line in headers(file):
        if line.startswith("Requires-Dist:"):
            text, _, condition = line.partition(":")[2].partition(";")
            text = text.replace("(", " ").replace(")", " ").strip()
            end = next((i for i, character in enumerate(text) if character in " [<>=!~"), len(text))
            name, versions = normalised(text[:end]), text[end:].rpartition("]")[2].replace(" ", "")
            is_linux = not condition or ("platform_system" in condition and "extra" not in condition)
            if versions and is_linux and (name in DEMANDED or name.startswith("nvidia-")):
                found[name] = versions
    return found


def headers(file: str) -> list[str]:
    """The lines of a METADATA file before the description, which may say anything."""
    lines = []
    try:
        with open(file, encoding="utf-8", errors="backslashreplace") as text:
            for line in text:
                if not line.strip():
                    break
                lines.append(line.rstrip())
    except OSError:
        pass
    return lines


def names_in(folder: str) -> list[str]:
    """What a folder holds; an entry of the search path may be absent, closed to us or a zip file."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
