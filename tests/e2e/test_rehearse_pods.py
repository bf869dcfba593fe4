"""Real hosts that run what a manifest gives their pods: does it rehearse, and do the logs tell what is wrong?"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.e2e.test_rehearse_remote import folder, lab
from tests.lab.spaces import ENVIRONMENT

__all__ = ["folder", "lab"]
BIN = Path(sys.executable).parent
JOB = """apiVersion: v1
kind: Service
metadata: {{name: llama}}
spec: {{clusterIP: None, selector: {{job-name: llama}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: llama}}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      subdomain: llama
      restartPolicy: Never
      containers:
      - name: trainer
        image: trainer:1
        command: [bash, -c]
        args:
        - |
          cd {folder}
          {before}
          torchrun --nnodes=2 --nproc_per_node=1 --node_rank=$JOB_COMPLETION_INDEX \\
            --master_addr=llama-0.llama --master_port=29500 train.py
        resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""


def preflight(folder, *words):
    """The command, in that folder."""
    argv = [sys.executable, "-m", "preflight", "rehearse", "k8s", "job.yaml", *words]
    root = str(Path(__file__).parents[2])
    env = {**ENVIRONMENT, "PYTHONPATH": root}
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def pods_of(lab, folder, manifest):
    """Run the container of every pod on a host of its own, with what it mounts -> what kubectl logs would print."""
    kinds = {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(manifest.read_text())}
    job = kinds["Job", "llama-rehearsal"]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    hosts = "".join(
        f"{host.address} {job['metadata']['name']}-{index}.{pod['subdomain']}\n" for index, host in enumerate(lab.hosts)
    )

    def run(index):
        host, words = lab.hosts[index], [*container["command"], *container.get("args", ())]
        for volume in pod["volumes"]:
            place = folder / f"pod{index}" / volume["name"]
            place.mkdir(parents=True)
            files = kinds["ConfigMap", volume["configMap"]["name"]]["data"] if "configMap" in volume else {}
            for name, text in files.items():
                (place / name).write_text(text.replace(mounts["preflight-rehearsal-ranks"], f"{place.parent}/ranks"))
        (folder / f"pod{index}" / "preflight-rehearsal-hook").rename(folder / f"pod{index}" / "hook")
        (folder / f"pod{index}" / "preflight-rehearsal-ranks").rename(folder / f"pod{index}" / "ranks")
        words = [word.replace("/preflight-rehearsal", f"{folder}/pod{index}") for word in words]
        before = ["env", f"JOB_COMPLETION_INDEX={index}", f"PATH={BIN}:{ENVIRONMENT['PATH']}"]
        before += ["unshare", "--pid", "--fork", "--mount-proc"]  # what ends with its first process, as a container
        with host.write_file("/etc/hosts", host.space.root("/etc/hosts").read_text() + hosts):
            done = host.run([*before, *words], timeout_s=120)
        name = f"[pod/llama-rehearsal-{index}-x1y2z/trainer]"
        return done.returncode, "".join(f"{name} {line}\n" for line in (done.stdout + done.stderr).splitlines())

    with ThreadPoolExecutor(len(lab.hosts)) as pool:
        found = list(pool.map(run, range(len(lab.hosts))))
    (folder / "rehearsal.log").write_text("".join(text for _, text in found))
    return [code for code, _ in found]


def rehearsed(lab, folder, before="true", seconds=90):
    """The codes of the pods, and what is judged of their logs."""
    (folder / "job.yaml").write_text(JOB.format(folder=folder, before=before))
    made = preflight(folder, f"--deadline={seconds}")
    assert made.returncode == 0, made.stderr
    assert "kubectl apply --filename=job.rehearsal.yaml" in made.stdout
    codes = pods_of(lab, folder, folder / "job.rehearsal.yaml")
    return codes, preflight(folder, "--logs=rehearsal.log")


def test_the_pods_of_a_job_rehearse(lab, folder):
    """Their own command runs, every rank is the reference trainee, and the real program never is."""
    codes, judged = rehearsed(lab, folder)
    log = (folder / "rehearsal.log").read_text()
    assert codes == [0, 0], log
    assert judged.returncode == 0, judged.stdout + judged.stderr + log
    assert judged.stdout.startswith("GO  job.yaml\n")
    assert "the real program was run" not in log
    assert judged.stdout.count(" done ") == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "words"),
    [
        ('[ "$JOB_COMPLETION_INDEX" = 0 ] || exec conda activate x', "conda: not found"),
        ('[ "$JOB_COMPLETION_INDEX" = 0 ] || cd /tmp', "can't open file train.py in /tmp"),
        ('[ "$JOB_COMPLETION_INDEX" = 0 ] || sleep 600', "the launcher on llama-rehearsal-0-x1y2z waits, for "),
    ],
    ids=["command", "folder", "sleep"],
)
def test_a_fault_of_a_pod_is_named(lab, folder, before, words):
    """By its pod."""
    _, judged = rehearsed(lab, folder, before, 30 if "sleep" in before else 90)
    assert judged.returncode == 1, judged.stdout + judged.stderr
    assert judged.stdout.startswith("NO-GO  job.yaml\n")
    assert words in judged.stdout
    assert "llama-rehearsal-" in judged.stdout


def test_logs_that_tell_of_no_rank_are_no_go(lab, folder):
    """What was not heard was not measured."""
    (folder / "job.yaml").write_text(JOB.format(folder=folder, before="true"))
    (folder / "rehearsal.log").write_text("[pod/llama-rehearsal-0-x/trainer] Traceback (most recent call last):\n")
    judged = preflight(folder, "--logs=rehearsal.log")
    assert judged.returncode == 3, judged.stdout + judged.stderr
    assert judged.stdout.startswith("NO-GO")
