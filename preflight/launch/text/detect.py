"""Of which kind is a file, and is it one that a launcher has yet to fill in?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Kind = Literal["shell", "yaml", "batch config", "hostfile", "variables", "json", "other"]
SHELL_SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".job", ".zsh", ".batch", ".run", ".cmd")
YAML_SUFFIXES = (
    ".yaml",
    ".yml",
    ".yaml-template",
    ".yml-template",
    ".yaml.template",
    ".yaml.tmpl",
    ".yml.j2",
    ".yaml.j2",
    ".tpl",
)
SHEBANG = re.compile(r"#!.*\b(bash|sh|zsh|dash|ksh)\b")
ASSIGNS = re.compile(r"(?m)^\s*(export\s+)?(RANK|WORLD_SIZE|MASTER_ADDR|NODE_RANK|LOCAL_RANK)=")
HOST_LINE = re.compile(r"[A-Za-z0-9_.:\[\]-]+(\s+slots=\S+.*)?")
VARIABLE_LINE = re.compile(r"(export\s+)?[A-Za-z_][A-Za-z0-9_]*\s*=.*")
# {{ .Values.x }}, {{- if, {{ name }}, {% for %}, <% %>; not docker's --format '{{.Names}}'
TEMPLATE = re.compile(
    r"\{\{-?\s*(\.Values|\.Release|include\b|if\b|with\b|range\b|toYaml\b|[A-Za-z_][\w.]*(\s*\|[^}]*)?\s*-?\}\})|\{%-?\s*\w"
)

# AzureML fills these in itself when it starts the command.
FILLED_IN_LATER = re.compile(r"\$\{\{\s*(inputs|outputs|parent|search_space)\.[^{}]*\}\}")


# The first line of HCL, as Nomad, Terraform and Packer read it: job "train" {
BLOCK = re.compile(r"[A-Za-z_]\w*(\s+\"[^\"]*\"){0,3}\s*\{")


def kind_of(name: str, text: str, launch_words: Iterable[str] = ()) -> Kind:
    """The kind of a file by its name and content; `launch_words` are those by which a script starts a job."""
    lower = name.lower()
    lines = [line.strip() for line in text.split("\n")]
    telling = [line for line in lines if line and not line.startswith("#")]
    if lower.endswith(SHELL_SUFFIXES) or SHEBANG.match(text):
        return "shell"
    if lower.endswith(YAML_SUFFIXES):
        return "yaml"
    if lower.endswith((".py", ".md", ".ipynb", ".toml", ".rst", ".html", ".tf", ".hcl")):
        return "other"
    if lower.endswith(".service"):
        return "other" if not telling or telling[0].startswith("[") else "shell"  # whose commands were taken out of it
    if lower.endswith(".json") or (telling and telling[0].startswith("{")):
        return "json"
    if telling and BLOCK.fullmatch(telling[0]):
        return "other"
    base = lower.rpartition("/")[2]
    with_slots = sum("slots=" in line for line in telling)
    if 2 * with_slots >= max(len(telling), 1) or (
        "host" in base and all(map(HOST_LINE.fullmatch, telling)) and telling
    ):
        return "hostfile"
    if base.endswith((".deepspeed_env", "deepspeed_env", "nccl.conf", ".env")):
        return "variables"
    if _launches(text, launch_words) or ASSIGNS.search(text):
        return "shell"
    if telling and all(VARIABLE_LINE.fullmatch(line) for line in telling):
        return "variables"
    if telling and re.match(r"[\w\"']+\s*:(\s|$)|---|- ", telling[0]):
        return "yaml"
    return "other"


def _launches(text: str, words: Iterable[str]) -> bool:
    spelled = "|".join(re.escape(word).replace("\\ ", " +") for word in words)
    return bool(spelled) and re.search(rf"(?m)^[^#\n]*\b({spelled})(?![\w-])", text) is not None


# A script that says how a model is to be asked: PROMPT_TEMPLATE="{{ instruction }}".
OF_PROMPTS = re.compile(
    r"\s*(export\s+|local\s+)?\w*(TEMPLATE|PROMPT|template|prompt)\w*=|.*--\S*(template|prompt)\S*[ =]"
)


def template_line(text: str) -> int:
    """The line of the first part that a template engine has yet to fill in, 0 where there is none."""
    for number, line in enumerate(text.split("\n"), start=1):
        if OF_PROMPTS.match(line):
            continue
        if TEMPLATE.search(FILLED_IN_LATER.sub("", line)) and not line.lstrip().startswith("#"):
            return number
    return 0
