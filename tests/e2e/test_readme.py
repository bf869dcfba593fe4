"""Does every command of README and of the page of commands run as it stands, and is what they list what there is?"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from preflight.judge.settings import load_settings
from preflight.testing import healthy
from tests.run.test_stored import written

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
LAB = (ROOT / "docs/lab.md").read_text(encoding="utf-8")
OPTIONS = (ROOT / "docs/options.md").read_text(encoding="utf-8")
SITE = (ROOT / "docs/site-checks.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^    (?:preflight|pytest|python3?) .*$", re.MULTILINE)
# What stands there for something of the reader's, and what the lab has in its place.
PLACES = {
    "'node[01-16],gpu7'": "'node[1-2]'",
    "'node[01-16]'": "'node[1-2]'",
    "'node[1-4]'": "'node[1-2]'",
    "/opt/conda/bin/python": sys.executable,
}
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      subdomain: train
      restartPolicy: Never
      containers:
      - name: main
        image: registry.example/train:1
        command: [bash, -c, torchrun --nnodes=2 --nproc-per-node=1 --rdzv-endpoint=train-0.train:29500 train.py]
"""
OURS = f"--python={sys.executable} --report-dir=out"
# Words that keep a command short, or away from this checkout; the rest is as it stands.
MORE = {
    "preflight run": f"--profile=quick {OURS}",
    "pytest": f"--preflight-profile=quick {OURS} -p no:cacheprovider",
    "preflight facts": f"--python={sys.executable}",
    "preflight bench": OURS,
    "preflight train": OURS,
    "preflight launch write": f"--python={sys.executable}",
    "preflight rehearse k8s": "",
    "preflight rehearse": "--dry-run",  # that of the launch files here is a job behind a check
}


def commands(text: str) -> list[str]:
    """The commands of the indented blocks, without what is said about them."""
    return [re.split(r"  +#", found[0])[0].strip() for found in COMMAND.finditer(text)]


def in_checkout(command: str) -> bool:
    """Those that make the environment, the tests and the lab, which .ci/run and the tests of the lab run."""
    return command.startswith(("python3 -m venv", "python -m tests.lab"))


@pytest.fixture
def place(tmp_path):
    """A folder with what the commands expect: two runs, a hostfile, launch files, a job's log, and the checks."""
    for name in ("<run>", "<run1>", "<run2>"):
        (tmp_path / "reports" / name).mkdir(parents=True)
        written(healthy(), tmp_path / "reports" / name)
    (tmp_path / "hostfile").write_text("node1\nnode2\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank0.log").write_text("RuntimeError: CUDA error: out of memory\n")
    for machine in (0, 1):
        told = yaml.safe_load((ROOT / "examples/accelerate.yaml").read_text())
        told |= {"machine_rank": machine, "num_machines": 2, "main_process_ip": "node1", "main_process_port": 29400}
        (tmp_path / f"node{machine + 1}.yaml").write_text(yaml.safe_dump(told))
    (tmp_path / "job.yaml").write_text(JOB)
    shutil.copy(ROOT / "examples/torchrun.sh", tmp_path / "run.sh")
    shutil.copytree(ROOT / "checks", tmp_path / "checks")
    return tmp_path


def run(lab, place, command):
    """The command in a shell on the lab's controller, against the lab's hosts."""
    for theirs, ours in PLACES.items():
        command = command.replace(theirs, ours)
    command = re.sub(r"reports/<(\w+)>", r"'reports/<\1>'", command)
    more = next((words for start, words in MORE.items() if command.startswith(start)), "")
    before, dashes, after = command.partition(" -- ")
    if "--python=" in before:
        more = more.replace(f"--python={sys.executable}", "")
    words = " ".join(filter(None, [before, more, dashes.strip(), after]))
    words = words.replace("pytest ", "pytest checks ", 1) if words.startswith("pytest --hosts='node[1-2]'") else words
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"}
    return lab.run(["bash", "-c", words], env=environment, cwd=place, timeout_s=180)


@pytest.mark.parametrize(
    "command",
    sorted(
        {*commands(README), *commands(COMMANDS)} - {command for command in commands(README) if in_checkout(command)}
    ),
)
def test_every_command_runs(lab3, place, command):
    """Exit 0 on a healthy cluster, with something said; 1 for a failed job's log, 5 where no job runs to look at."""
    done = run(lab3, place, command)
    code = 5 if " --match=" in command else 1 if command.startswith("preflight diagnose") else 0
    assert done.returncode == code, done.stdout + done.stderr
    assert (done.stdout + done.stderr).strip()


def test_the_commands_for_a_checkout_are_those_that_ci_runs():
    """The test command word for word; the first one differs in what it installs and in running preflight."""
    first, tests = (command for command in commands(README) if command.startswith("python3"))
    assert tests in (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert first.endswith("pip install -c constraints.txt '.[torch]' && .venv/bin/preflight run")
    lab = [command for command in commands(LAB) if command.startswith("python -m tests.lab")]
    usage = (ROOT / "tests/lab/__main__.py").read_text(encoding="utf-8")
    assert [command for command in lab if command not in usage] == []


def test_the_chinese_readme_has_the_same_commands():
    """None of its own, and none left out; as many headings and rows too."""
    assert set(commands(README)) == set(commands(CHINESE))
    for mark in ("## ", "| ", "![", "- **"):
        assert README.count(f"\n{mark}") == CHINESE.count(f"\n{mark}"), mark


def test_the_check_and_the_waiver_in_it_work(lab3, place):
    """What a reader copies is collected, judged, and read as settings."""
    check = re.search(r"^    def test_mtu.*?\n\n(?=\S)", SITE, re.MULTILINE | re.DOTALL)
    waiver = re.search(r"^    \[\[waivers\]\].*?\n\n(?=\S)", OPTIONS, re.MULTILINE | re.DOTALL)
    assert check is not None
    assert waiver is not None
    (place / "site_checks").mkdir()
    (place / "site_checks/test_site.py").write_text(re.sub("(?m)^    ", "", check[0]))
    (place / "preflight.toml").write_text(re.sub("(?m)^ +", "", waiver[0]))
    (read,) = load_settings(place / "preflight.toml").waivers
    assert read.owner == "alice"
    done = run(lab3, place, f"pytest site_checks/ --hosts='node[1-2]' {OURS} --settings=preflight.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 check" in done.stdout


def test_the_readme_is_a_page_that_is_read():
    """Picture, commands, requirements, links: the rest is in docs/."""
    assert README.count("\n") <= 150
    assert CHINESE.count("\n") <= 150


@pytest.mark.parametrize("text", [README, CHINESE], ids=["README.md", "README.zh-CN.md"])
def test_files_that_are_spoken_of_are_there(text):
    """Pictures and links lead somewhere, to a heading of the page too, and a picture is no burden."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("http")]
    headings = {f"#{title.lower().replace(' ', '-')}" for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    assert links
    assert [link for link in links if link not in headings and not (ROOT / link.partition("#")[0]).exists()] == []
    assert all(path.stat().st_size < 200_000 for path in (ROOT / "docs").glob("*.png"))
