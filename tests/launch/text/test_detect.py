"""Is the kind of a file known by its name or content, and is a template not taken for a launch file?"""

from __future__ import annotations

import pytest

from preflight.launch.text.detect import kind_of, template_line
from tests.launch.samples import BATCHES, HOSTFILE, SBATCH, config, exports, torchrun


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.sh", "", "shell"),
        ("start", torchrun(), "shell"),
        ("commands.txt", exports(), "shell"),
        ("job", SBATCH, "shell"),
        ("a.yaml", config(), "yaml"),
        ("hostfile", HOSTFILE, "hostfile"),
        ("nodes.txt", HOSTFILE, "hostfile"),
        ("a.json", BATCHES, "json"),
        ("x/nccl.conf", "NCCL_DEBUG=INFO\n", "variables"),
        ("train.py", "import torch\n", "other"),
        ("notes.txt", "some words\n", "other"),
    ],
)
def test_the_kind_of_a_file(name, text, kind):
    """By its name, else by its content."""
    assert kind_of(name, text) == kind


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("go", "#!/usr/bin/env bash\nls\n", "shell"),
        ("values.txt", "# a comment\n\nA=1\nexport B=2\n", "variables"),
        ("train/.deepspeed_env", "anything\n", "variables"),
        ("myhosts", "n1\nn2\n", "hostfile"),
        ("names.txt", "n1\nn2\n", "other"),
        ("a.tpl", "", "yaml"),
        ("noname", "distributed_type: NO\n", "yaml"),
        ("noname", '{"a": 1}', "json"),
        ("README.md", "    torchrun t.py\n", "other"),
        ("hosts", "", "other"),
        ("", "", "other"),
    ],
)
def test_a_file_without_a_telling_name_is_known_by_its_content(name, text, kind):
    """A list of names is a hostfile only where it is called one; a guide that shows a command is none of them."""
    assert kind_of(name, text) == kind


@pytest.mark.parametrize(
    ("kind", "endings"),
    [
        ("shell", ".sh .bash .zsh .cmd .slurm .sbatch .job .batch .run"),
        ("yaml", ".yaml .yml .yaml-template .yml-template .yaml.template .yaml.tmpl .yml.j2 .yaml.j2 .tpl"),
        ("other", ".py .md .ipynb .toml .rst .html .tf .hcl"),
        ("json", ".json"),
    ],
)
def test_the_end_of_a_name_tells_the_kind(kind, endings):
    """Whatever it holds, in letters of any size; a name that is the end alone, or has it elsewhere, tells nothing."""
    held = exports() if kind == "other" else "NCCL_DEBUG=INFO\n"
    for ending in endings.split():
        assert kind_of(f"a{ending}", held) == kind_of(f"A{ending.upper()}", held) == kind, ending
        assert kind_of(f"a{ending}.old", held) == ("shell" if kind == "other" else "variables"), ending


def test_templates_and_what_only_looks_like_one():
    """Helm and Jinja are; docker's --format and a comment are not."""
    assert template_line("a\nb: {{ .Values.x }}\n") == 2
    assert template_line("{% for x in y %}") == 1
    assert template_line("docker ps --format '{{.Names}}'") == 0
    assert template_line("# {{ .Values.x }}") == 0


@pytest.mark.parametrize(
    ("line", "is_template"),
    [
        ("replicas: {{ workers }}", True),
        ("replicas: {{- if .Values.x }}", True),
        ("{{ name | quote }}", True),
        ("{%- endfor %}", True),
        ("awk '{print $1}'", False),
        ("echo ${A:-{}}", False),
        ("x: {a: {b: 1}}", False),
    ],
)
def test_only_what_an_engine_fills_in_is_a_template(line, is_template):
    """Braces of a shell, of awk and of YAML are none."""
    assert template_line(f"a: 1\n{line}\n") == (2 if is_template else 0)


NOMAD = """# of Nomad
job "train" {
  group "g" {
    task "t" {
      config {
        command = "torchrun"
        args = ["--nnodes=2", "train.py"]
      }
    }
  }
}
"""


def test_a_file_of_hcl_is_no_script():
    """Whatever its name: bash would stop at its closing brace."""
    assert {kind_of(name, NOMAD, ("torchrun",)) for name in ("job", "job.nomad", "job.hcl", "main.tf")} == {"other"}
    assert kind_of("run", "run() {\n torchrun t.py\n}\nrun\n", ("torchrun",)) == "shell"
