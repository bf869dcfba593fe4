"""Does pip of the job's own interpreter get the others' version, from the others' index?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.files import Place
from preflight.facts.value import Missing
from preflight.knowledge.packages import BAD_PAIRS, BadPair
from preflight.testing import healthy, roce
from tests.judge.commands.typed import as_root, typed

VERSIONS = "software.versions_are_the_same_on_every_node"


def test_torch_of_the_others_comes_from_their_index():
    """By the CUDA that it was built for, for the interpreter that the job has."""
    run = as_root(roce()).broken("node3", "software", torch="2.4.0", executable="/opt/my env/bin/python3")
    want = "'/opt/my env/bin/python3' -m pip install --force-reinstall torch==2.13.0"
    assert typed(run, VERSIONS) == {"node3": f"{want} --index-url https://download.pytorch.org/whl/cu130"}


def test_a_package_of_one_node_only_goes():
    """One that is there in another version becomes that of the others."""
    run = as_root(healthy())
    held = run.facts("node3", "software", type(run.subjects["node3"]["software"])).packages
    more = run.broken("node3", "software", packages={**held, "tqdm": "4.1"})
    name = "software.environments_are_the_same_on_every_node"
    assert typed(more, name) == {"node3": "/usr/bin/python3 -m pip uninstall -y tqdm"}


@pytest.mark.parametrize(("cuda", "tag"), [("12.4", "cu129"), ("11.4", "cu118"), ("13.1", None)])
def test_torch_fits_the_driver(cuda, tag):
    """The newest CUDA that it runs."""
    run = as_root(roce()).broken("node2", "gpu", cuda_driver=cuda)
    found = typed(run, "gpu.driver_runs_the_cuda_of_torch")
    assert found == ({} if tag is None else {"node2": found.get("node2")})
    assert tag is None or found["node2"].endswith(f"/whl/{tag}")


def test_a_python_of_the_system_is_not_told_to_take_packages():
    """Debian's pip refuses that (PEP 668): without torch there is an environment of its own, with its --python."""
    managed = {"keeps_pip_out": True, "executable": "/usr/bin/python3"}
    gone = Missing("not installed", "absent")
    places = (Place("/home/me", "home", "", True, 1 << 40, 1 << 20),)
    run = as_root(healthy()).broken("node3", "software", torch=gone, **managed).broken("node3", "files", places=places)
    want = (
        "/usr/bin/python3 -m venv /home/me/venv && /home/me/venv/bin/python3 -m pip install --force-reinstall torch=="
    )
    name = "software.torch_is_installed"
    assert typed(run, name)["node3"].startswith(want)
    assert typed(run, name, lasting=True)["node3"].endswith("--python=/home/me/venv/bin/python3")
    kept = as_root(roce()).broken("node3", "software", torch="2.4.0", **managed)
    want = "/usr/bin/python3 -m pip install --break-system-packages --force-reinstall torch=="
    assert typed(kept, VERSIONS)["node3"].startswith(want)


@pytest.mark.parametrize(
    ("preloaded", "typed_now"),
    [
        ("/opt/libnccl.so.2", "unset LD_PRELOAD"),
        ("/opt/libnccl.so.2:/usr/lib/libjemalloc.so.2", "export LD_PRELOAD=/usr/lib/libjemalloc.so.2"),
    ],
)
def test_another_nccl_leaves_the_preload_and_the_rest_stays(preloaded, typed_now):
    """The variable goes only where it held nothing else."""
    run = as_root(roce()).broken("node2", "software", nccl_preloaded="/opt/libnccl.so.2")
    run = run.with_variables("node2", LD_PRELOAD=preloaded)
    assert typed(run, "software.one_nccl_can_be_met") == {"node2": typed_now}


@pytest.mark.parametrize(
    ("folders", "typed_now"),
    [
        ("/opt/nccl/lib", "unset LD_LIBRARY_PATH"),
        ("/opt/nccl/lib/:/usr/lib", "export LD_LIBRARY_PATH=/usr/lib"),
        ("/usr/lib:/opt/nccl/lib", "export LD_LIBRARY_PATH=/usr/lib"),
    ],
)
def test_a_folder_with_another_nccl_leaves_the_path(folders, typed_now):
    """The other folders stay, in their order."""
    copy = {"/opt/nccl/lib/libnccl.so.2.16.2": "2.16.2"}
    run = as_root(roce()).broken("node2", "software", nccl_copies=copy).with_variables("node2", LD_LIBRARY_PATH=folders)
    assert typed(run, "software.one_nccl_can_be_met") == {"node2": typed_now}


def test_of_two_wheels_of_nccl_the_one_of_torchs_cuda_is_installed_again():
    """Without its dependencies, and in the version that it has."""
    wheels = {"nvidia-nccl-cu12": "2.27.5", "nvidia-nccl-cu13": "2.28.9"}
    run = as_root(roce()).broken("node2", "software", packages=wheels)
    (command,) = typed(run, "software.one_nccl_can_be_met").values()
    assert command.endswith("pip install --force-reinstall --no-deps nvidia-nccl-cu13==2.28.9")


def with_packages(run, node, **packages):
    """More packages of a node, or of all; a name is written with _ for each -."""
    for name in [node] if node else run.names:
        held = run.facts(name, "software", type(run.subjects[name]["software"])).packages
        more = {package.replace("_", "-"): version for package, version in packages.items()}
        run = run.broken(name, "software", packages={**held, **more})
    return run


@pytest.mark.parametrize(
    ("packages", "wanted"),
    [
        ({"deepspeed": "0.14.2"}, "'deepspeed>=0.14.3'"),
        ({"transformer_engine": "1.0", "flash_attn": "2.5.8"}, "'transformer-engine>=1.1'"),
    ],
)
def test_the_older_of_two_packages_that_break_together_goes_up(packages, wanted):
    """Beyond the versions that are known to break."""
    run = with_packages(as_root(roce()), "node2", **packages)
    found = typed(run, "software.no_versions_break_together")
    assert found == {"node2": f"/usr/bin/python3 -m pip install {wanted}"}


def test_an_nccl_that_breaks_is_that_of_torchs_wheel():
    """By the name under which it is installed; the one of CUDA 12 where none is."""
    run = as_root(roce()).broken("node2", "software", nccl="2.27.1")
    name = "software.no_versions_break_together"
    assert typed(run, name)["node2"].endswith("pip install 'nvidia-nccl-cu12>=2.27.3'")
    wheel = with_packages(run, "node2", nvidia_nccl_cu13="2.27.1")
    assert typed(wheel, name)["node2"].endswith("pip install 'nvidia-nccl-cu13>=2.27.3'")


def test_cudnn_comes_as_the_package_that_the_others_have():
    """In their version; where it came by no package, torch brings its own again."""
    name = f"{VERSIONS}"
    run = with_packages(as_root(roce()), "", nvidia_cudnn_cu13="9.1.0").broken("node3", "software", cudnn="8.9.0")
    run = with_packages(run, "node3", nvidia_cudnn_cu13="8.9.0")
    assert typed(run, name)["node3"].endswith("-m pip install nvidia-cudnn-cu13==9.1.0")
    bare = as_root(roce()).broken("node3", "software", cudnn="8.9.0")
    assert "--force-reinstall torch==2.13.0" in typed(bare, name)["node3"]


@pytest.mark.parametrize(("hip", "tag"), [("6.2.41133", "rocm6.2"), (Missing("none", "absent"), "cpu")])
def test_torch_for_another_gpu_comes_from_its_index(hip, tag):
    """By the ROCm that it was built for; the CPU's where it was built for neither."""
    none = Missing("none", "absent")
    run = as_root(roce()).broken(roce().names, "software", torch_cuda=none, torch_hip=hip)
    run = run.broken("node3", "software", torch="2.4.0")
    assert typed(run, VERSIONS)["node3"].endswith(f"torch==2.13.0 --index-url https://download.pytorch.org/whl/{tag}")


def test_a_companion_of_one_node_alone_is_taken_away():
    """One in another version becomes that of the others."""
    name = "software.companions_are_the_same_on_every_node"
    more = with_packages(as_root(roce()), "node3", transformers="4.40.0")
    assert typed(more, name) == {"node3": "/usr/bin/python3 -m pip uninstall -y transformers"}
    older = with_packages(as_root(roce()), "node3", accelerate="1.0.0")
    assert typed(older, name) == {"node3": "/usr/bin/python3 -m pip install accelerate==1.12.0"}


@pytest.mark.parametrize("version", ["2.4.0; reboot", "--index-url=http://x/", "https://x/torch.whl"])
def test_what_is_no_version_is_installed_nowhere(version):
    """A word of a node that pip would take for an option or an address."""
    run = as_root(roce()).broken(["node1", "node2", "node4"], "software", torch=version)
    assert typed(run, VERSIONS) == {}


def test_torch_of_a_node_alone_is_any():
    """There are no others, or they do not agree on one."""
    gone = Missing("not installed", "absent")
    name = "software.torch_is_installed"
    alone = as_root(healthy(1)).broken("node1", "software", torch=gone)
    assert typed(alone, name) == {"node1": "/usr/bin/python3 -m pip install torch"}
    apart = as_root(healthy()).broken("node3", "software", torch=gone).broken("node2", "software", torch="2.4.0")
    assert typed(apart, name) == {"node3": "/usr/bin/python3 -m pip install torch"}


@pytest.mark.parametrize("pair", BAD_PAIRS, ids=lambda pair: f"{pair.package} {pair.versions}")
def test_a_pair_that_goes_badly_is_left_by_a_newer_version(pair: BadPair):
    """Of its first package, from the version on that its row no longer means; all of the pairs of a node at once."""
    run = as_root(roce())
    held = run.subjects["node2"]["software"]
    own = {name: version for name, version in pair.example.items() if name in ("torch", "nccl")}
    packages = {**held.packages, **pair.example, "nvidia-nccl-cu11": "2.20.5", "nvidia-nccl-cu13": "2.28.9"}
    package = "nvidia-nccl-cu13" if pair.package == "nccl" else pair.package
    newer = pair.versions.rpartition("<")[2]
    found = typed(run.broken("node2", "software", packages=packages, **own), "software.no_versions_break_together")
    assert f"'{package}>={newer}'" in found["node2"]


@pytest.mark.parametrize(
    ("cuda", "hip", "index"),
    [
        ("12.4.1", "none", "cu124"),
        ("11.8", "none", "cu118"),
        ("none", "6.2.41133", "rocm6.2"),
        ("none", "none", "cpu"),
    ],
)
def test_the_index_is_that_of_the_others_build(cuda, hip, index):
    """By two parts of the version of CUDA or ROCm; of neither it is that for CPUs."""
    absent = Missing("torch is not built for it", "absent")
    built = {"torch_cuda": absent if cuda == "none" else cuda, "torch_hip": absent if hip == "none" else hip}
    run = as_root(roce()).broken(roce().names, "software", **built).broken("node3", "software", torch="2.4.0")
    assert typed(run, VERSIONS)["node3"].endswith(f"--index-url https://download.pytorch.org/whl/{index}")


@pytest.mark.parametrize(("count", "version"), [(1, "torch"), (2, "torch"), (3, "torch==2.13.0")])
def test_torch_that_is_missing_is_that_of_the_others(count, version):
    """Any, where no two others agree on one."""
    run = as_root(healthy(count)).broken("node1", "software", torch=Missing("no module named torch", "absent"))
    command = typed(run, "software.torch_is_installed")["node1"]
    assert command.split(" --index-url")[0].endswith(f" {version}")
