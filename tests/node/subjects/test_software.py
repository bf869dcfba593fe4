"""Tests of preflight.node.subjects.software."""

import glob
import json
import os
import subprocess
import sys

import msgspec
import pytest

from preflight.facts.subjects.software import Software
from preflight.facts.value import Missing
from preflight.node.sources import metadata
from preflight.node.subjects import software

CUDA = """from typing import Optional
__all__ = ["__version__", "cuda"]
__version__ = "2.5.1+cu124"
debug = False
cuda: Optional[str] = "12.4"
git_version = "abc"
hip: Optional[str] = None
"""


def distribution(folder, name, version, *, says=""):
    (folder / f"{name}-{version}.dist-info").mkdir(parents=True)
    (folder / f"{name}-{version}.dist-info/METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {says or version}\n\nVersion: 0 of the description\n"
    )


def torch(folder, source):
    (folder / "torch/lib").mkdir(parents=True)
    (folder / "torch/__init__.py").write_text("raise SystemExit('imported')")
    (folder / "torch/version.py").write_text(source)


def versions(path):
    return {name: version for name, (version, _) in metadata.installed(path).items()}


def facts(*path, libraries=()):
    path = [os.fspath(entry) for entry in path]
    packages = versions(path)
    return software.torch_facts(path, packages, library_folders=[os.fspath(entry) for entry in libraries])


def test_this_interpreter_is_told():
    """The facts of the interpreter at hand have the shape that the controller expects, and torch is not imported."""
    told = msgspec.convert(software.collect({"environment": []}), type=Software, strict=True)
    assert told.executable == sys.executable
    assert told.python == sys.version.split()[0]
    assert told.version("msgspec") == msgspec.__version__


def test_torch_says_its_own_versions(tmp_path):
    """version.py is parsed, never run, and gives torch's version and CUDA; what it sets to None is absent."""
    torch(tmp_path, CUDA + "raise SystemExit('run')\n")
    told = facts(tmp_path)
    assert (told["torch"], told["torch_cuda"]) == ("2.5.1+cu124", "12.4")
    assert told["torch_hip"]["kind"] == "absent"


def test_the_first_torch_on_the_path_wins(tmp_path):
    """With two installations the job's import takes the first, and so do we; a folder that is no package is passed."""
    (tmp_path / "empty/torch").mkdir(parents=True)
    torch(tmp_path / "one", CUDA.replace("2.5.1", "2.4.0"))
    torch(tmp_path / "two", CUDA)
    assert facts(tmp_path / "empty", tmp_path / "one", tmp_path / "two")["torch"] == "2.4.0+cu124"


def test_no_torch_is_absent_and_a_broken_one_failed(tmp_path):
    """Not installed, installed without its folder, and a version.py that is no Python are told apart."""
    assert facts(tmp_path)["torch"] == {"missing": "not installed", "kind": "absent"}
    distribution(tmp_path, "torch", "2.5.1")
    assert facts(tmp_path)["torch"]["kind"] == "failed"
    torch(tmp_path, "__version__ = (((")
    told = facts(tmp_path)["torch"]
    assert told["kind"] == "failed"
    assert "version.py" in told["missing"]


@pytest.mark.parametrize("source", ["", "__version__ = 3\n", "__version__: str\n", "__version__ = str(1)\n"])
def test_a_version_that_is_no_text_is_missing(tmp_path, source):
    """Only a plain string is a version; nothing is computed."""
    torch(tmp_path, source)
    assert facts(tmp_path)["torch"]["kind"] == "failed"


def test_a_cpu_build_has_no_cuda(tmp_path):
    """A CPU build of torch has neither CUDA nor HIP, and says why."""
    torch(tmp_path, '__version__ = "2.5.1+cpu"\ncuda = None\nhip = None\n')
    told = facts(tmp_path)
    assert told["torch_cuda"] == told["torch_hip"] == {"missing": "this torch is a CPU build", "kind": "absent"}


def test_the_libraries_of_torchs_cuda_are_told(tmp_path):
    """Of several NCCL packages the one for torch's CUDA counts."""
    torch(tmp_path, CUDA)
    for name, version in (
        ("nvidia_nccl_cu11", "2.18.1"),
        ("nvidia_nccl_cu12", "2.21.5"),
        ("nvidia_cudnn_cu12", "9.1.0.70"),
    ):
        distribution(tmp_path, name, version)
    told = facts(tmp_path)
    assert (told["nccl"], told["cudnn"]) == ("2.21.5", "9.1.0.70")


def test_without_a_package_nccl_is_known_by_its_file(tmp_path):
    """The real name of libnccl.so.2 on the library path gives the version."""
    torch(tmp_path, CUDA)
    (tmp_path / "nccl").mkdir()
    (tmp_path / "nccl/libnccl.so.2.19.3").touch()
    (tmp_path / "nccl/libnccl.so.2").symlink_to("libnccl.so.2.19.3")
    assert facts(tmp_path, libraries=[tmp_path / "nccl"])["nccl"] == "2.19.3"


def test_packages_are_named_as_pip_names_them(tmp_path):
    """Names are normalised, both kinds of metadata count, and the first folder on the path holds."""
    distribution(tmp_path / "one", "Clean_.Name", "1.0")
    distribution(tmp_path / "two", "clean_name", "2.0")
    (tmp_path / "two/old-3.1-py3.11.egg-info").touch()
    (tmp_path / "two/develop.egg-info").mkdir()
    (tmp_path / "two/develop.egg-info/PKG-INFO").write_text("Name: develop\nVersion: 0.4\n")
    path = [os.fspath(tmp_path / name) for name in ("one", "two", "absent")]
    assert versions(path) == {"clean-name": "1.0", "old": "3.1", "develop": "0.4"}


def test_metadata_beats_the_name_of_its_folder(tmp_path):
    """The version of torch is what METADATA says, for the folder keeps its name when another version is mounted in."""
    distribution(tmp_path, "torch", "2.13.0", says="2.12.0")
    assert versions([os.fspath(tmp_path)]) == {"torch": "2.12.0"}


def test_the_jobs_search_path_is_used(tmp_path):
    """An isolated interpreter still tells the packages that PYTHONPATH and the user's site give to the job."""
    own = tmp_path / f"base/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    distribution(own, "userpack", "1.0")
    distribution(tmp_path / "linked", "linkedpack", "2.0")
    (own / "extra.pth").write_text(f"# comment\nimport os\n{tmp_path / 'linked'}\n")
    distribution(tmp_path / "path", "pathpack", "3.0")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from preflight.node.subjects import software\n"
        "import site; sys.prefix = sys.argv[2]; sys.executable = sys.prefix + '/bin/python3'; site.USER_SITE = None\n"
        "layers = [['--env', dict(entry.split('=') for entry in sys.argv[3:])]]\n"
        "print(*software.collect({'environment': layers})['packages'])\n"
    )
    root = os.fspath(software.__file__).rpartition("/preflight/")[0]

    def packages(*variables, prefix="/usr"):
        command = [sys.executable, "-I", "-c", code, root, prefix, *variables]
        environment = {**os.environ, "PYTHONUSERBASE": os.fspath(tmp_path / "base")}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.split()

    found = packages(f"PYTHONPATH={tmp_path / 'path'}")
    assert {"pathpack", "userpack", "linkedpack"} <= set(found)
    assert "pathpack" not in packages()
    assert "userpack" not in packages("PYTHONNOUSERSITE=1")
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    assert "userpack" not in packages(prefix=os.fspath(tmp_path / "venv"))


@pytest.mark.parametrize("lets_others_in", [False, True])
def test_packages_are_looked_for_where_site_would(tmp_path, lets_others_in):
    """A Python started with -S has no folders of packages: they are found as `site` finds them, .pth files included."""
    options = ["--system-site-packages"] if lets_others_in else []
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", *options, tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv/lib").glob("python3*/site-packages")
    (tmp_path / "linked").mkdir()
    (site / "a.pth").write_text(f"{tmp_path}/linked\nimport sys; sys.stdout.write('ran')\n")
    python = os.fspath(tmp_path / "venv/bin/python")
    root = os.fspath(software.__file__).rpartition("/preflight/")[0]
    told = "import json, sys; print(json.dumps([sys.prefix, sys.path]))"
    ours = (
        f"import sys; sys.path.insert(0, {root!r})\nfrom preflight.node.subjects import software\n"
        "del sys.path[0]; sys.path = software.search_path({'PYTHONNOUSERSITE': ('1', '')})\n"
    )

    def run(*words):
        done = subprocess.run([python, "-I", *words], check=True, capture_output=True, text=True)
        return json.loads(done.stdout[done.stdout.index("[") :])

    (prefix, path), (our_prefix, our_path) = run("-c", told), run("-S", "-c", ours + told)
    assert our_prefix == prefix == os.fspath(tmp_path / "venv")
    assert [folder for folder in our_path if os.path.isdir(folder)] == [one for one in path if os.path.isdir(one)]
    assert os.fspath(tmp_path / "linked") in our_path


def test_a_missing_version_decodes(tmp_path):
    """What is said of a node without torch has the shape that the controller expects."""
    document = {
        "python": "3.9.2",
        "implementation": "cpython",
        "executable": "/usr/bin/python3",
        "libc": "glibc 2.31",
        "packages": {},
        **facts(tmp_path),
    }
    assert msgspec.convert(document, type=Software, strict=True).nccl == Missing("not installed", "absent")


def test_every_nccl_that_a_rank_can_meet_is_told(tmp_path):
    """The wheel's by its package, the others by their names; one file under two names is one copy."""
    wheel = tmp_path / "site/nvidia/nccl/lib"
    other = tmp_path / "lib"
    for folder in (wheel, other, tmp_path / "again"):
        folder.mkdir(parents=True)
    (wheel / "libnccl.so.2").touch()
    (other / "libnccl.so.2.16.2").touch()
    (other / "libnccl.so.2").symlink_to("libnccl.so.2.16.2")
    (tmp_path / "again/libnccl.so.2").symlink_to(other / "libnccl.so.2.16.2")
    held = {"nvidia-nccl-cu12": "2.20.5"}
    found = software.nccl_copies([f"{tmp_path}/site"], held, [f"{tmp_path}/lib", "", f"{tmp_path}/again"])
    ours = {path: version for path, version in found.items() if path.startswith(str(tmp_path))}
    assert ours == {f"{wheel}/libnccl.so.2": "2.20.5", f"{other}/libnccl.so.2.16.2": "2.16.2"}


def test_plugins_of_nccl_are_found_where_the_linker_looks(tmp_path):
    """In the folders of LD_LIBRARY_PATH, and by the linker's cache, which keeps files that are gone."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "libnccl-net.so").touch()
    (tmp_path / "one/libnccl.so.2").touch()
    (tmp_path / "two/librccl-net-ofi.so").touch()
    cached, gone = tmp_path / "two/libnccl-net.so", tmp_path / "three/libnccl-net.so"
    amd = tmp_path / "two/librccl-net-ofi.so"
    (tmp_path / "cache").write_bytes(f"glibc-ld.so.cache1.1\0{cached}\0libnccl-net.so\0{gone}\0{amd}\0".encode())
    found = software.nccl_plugins([os.fspath(tmp_path / "one"), "", "/nonexistent"], os.fspath(tmp_path / "cache"))
    assert found == [os.fspath(path) for path in (tmp_path / "one/libnccl-net.so", cached, amd)]
    assert software.nccl_plugins([], "/nonexistent") == []


def test_plugins_of_nccl_in_a_folder_of_the_system_need_no_cache(tmp_path, monkeypatch):
    """Copied there by hand, by the name that NCCL asks for: no other is found without the linker's cache."""
    monkeypatch.setattr(software, "SYSTEM_LIBRARIES", (os.fspath(tmp_path),))
    for name in ("libnccl-net.so", "libnccl-net-ofi.so", "libnccl.so.2"):
        (tmp_path / name).touch()
    assert software.nccl_plugins([], "/nonexistent") == [os.fspath(tmp_path / "libnccl-net.so")]


def test_what_ld_library_path_puts_first_is_told_by_name(tmp_path):
    """The names that programs ask for, once; neither those of linking nor what no job asks for."""
    for name in ("libcuda.so.1", "libcuda.so", "libstdc++.so.6.0.33", "libz.so.1", "libnccl-net.so", "libnccl.so.2"):
        (tmp_path / name).touch()
    (tmp_path / "second").mkdir()
    (tmp_path / "second/libcuda.so.1").touch()
    folders = [os.fspath(tmp_path), "", os.fspath(tmp_path / "second"), "/nonexistent"]
    assert software.put_first(folders) == ["libcuda.so.1", "libnccl-net.so"]
    assert software.put_first([""]) == []


def test_other_interpreters_that_have_torch_are_found(tmp_path):
    """In an active environment, one that conda lists, and the controller's own; without a Python it is none."""
    for name in ("active", "listed", "own", "no-python"):
        folder = tmp_path / name / "lib" / "python3.11" / "site-packages" / "torch"
        folder.mkdir(parents=True)
        (folder / "version.py").write_text(f"__version__ = '2.9.0+{name}'\n")
        (tmp_path / name / "bin").mkdir()
        if name != "no-python":
            (tmp_path / name / "bin" / "python3").touch(mode=0o755)
    (tmp_path / "empty" / "bin").mkdir(parents=True)
    (tmp_path / "empty" / "bin" / "python3").touch(mode=0o755)
    variables = {"VIRTUAL_ENV": (os.fspath(tmp_path / "active"), "node")}
    found = list(software.prefixes(variables, {"interpreter": os.fspath(tmp_path / "own" / "bin" / "python3")}))
    assert found[0] == os.fspath(tmp_path / "active")
    assert os.fspath(tmp_path / "own") in found
    for name in ("active", "own", "listed"):
        folders = (os.fspath(tmp_path / folder) for folder in ("no-python", "empty", name, "active"))
        assert software.torch_elsewhere(folders) == {f"{tmp_path}/{name}/bin/python3": f"2.9.0+{name}"}


def environment(folder, *, torch=None):
    """An environment with a Python, and with torch where a version is given."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").touch(mode=0o755)
    library = folder / "lib" / "python3.12" / "site-packages"
    library.mkdir(parents=True)
    if torch:
        (library / "torch").mkdir()
        (library / "torch" / "version.py").write_text(f"__version__ = '{torch}'\n")
    return library


def test_torch_is_found_where_an_environment_sees_it(tmp_path):
    """By a line of a .pth file, from its own folder on too, and in the installation that it was made on."""
    base = environment(tmp_path / "base", torch="2.9.0")
    for name, text in (
        ("absolute", f"# torch\nimport site\n{base}\n"),
        ("relative", "../../../../base/lib/python3.12/site-packages"),
    ):
        (environment(tmp_path / name) / "more.pth").write_text(text)
    for name, seen in (("system", "true"), ("alone", "false")):
        environment(tmp_path / name)
        text = f"home = {tmp_path}/base/bin\ninclude-system-site-packages = {seen}\nversion = 3.12.1\n"
        (tmp_path / name / "pyvenv.cfg").write_text(text)
    assert software.torch_elsewhere([os.fspath(tmp_path / "alone")]) == {}
    for name in ("absolute", "relative", "system"):
        assert software.torch_elsewhere([f"{tmp_path}/{name}"]) == {f"{tmp_path}/{name}/bin/python3": "2.9.0"}


@pytest.mark.parametrize(
    "place",
    [
        *(".python/versions/3.12.1", "miniconda3", "micromamba/envs/torch", ".conda/envs/torch", "project/.venv"),
        *(
            ".local/share/mamba/envs/torch",
            ".cache/pypoetry/virtualenvs/job-x-py3.12",
            ".local/share/virtualenvs/job-x",
        ),
    ],
)
def test_environments_of_many_tools_are_looked_at(tmp_path, monkeypatch, place):
    """Of pyenv, conda, mamba, uv, poetry and pipenv, though none of them is active."""
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    environment(tmp_path / place, torch="2.9.0")
    found = software.torch_elsewhere(software.prefixes({}, {}))
    assert found[f"{tmp_path}/{place}/bin/python3"] == "2.9.0"


def test_places_of_environments_are_found_as_a_shell_finds_them(tmp_path):
    """A star stands for any name but a hidden one, and what is not there is left out."""
    for name in (".python/versions/3.9", "a/.venv", "b/venv", ".hidden/.venv", ".poetry"):
        (tmp_path / name).mkdir(parents=True)
    for pattern in ("*/.venv", ".py*/versions/*", "*", "b/venv", "nothing/*", "*/no", ".p*y"):
        assert software.matching(f"{tmp_path}/{pattern}") == sorted(glob.glob(f"{tmp_path}/{pattern}"))


def test_a_python_that_the_system_manages_is_known_by_its_marker(tmp_path, monkeypatch):
    """EXTERNALLY-MANAGED beside the standard library; an environment made from it takes packages."""
    monkeypatch.setattr(software.os, "__file__", str(tmp_path / "os.py"))
    monkeypatch.setattr(software.sys, "prefix", software.sys.base_prefix)
    assert not software.keeps_pip_out()
    (tmp_path / "EXTERNALLY-MANAGED").write_text("[externally-managed]\n")
    assert software.keeps_pip_out()
    monkeypatch.setattr(software.sys, "prefix", str(tmp_path / "venv"))
    assert not software.keeps_pip_out()


def test_a_ray_that_runs_is_known_by_its_processes(tmp_path):
    """Its raylet lies in the folder of its packages; other programs, and processes that have ended, are nothing."""
    site = "/opt/env/lib/python3.11/site-packages"
    programs = {"41": f"{site}/ray/core/src/ray/raylet/raylet", "42": "/usr/bin/python3", "43": "/x/ray/core/src/ray/a"}
    for pid, program in programs.items():
        (tmp_path / pid / "root" / site[1:] / "ray-2.43.0.dist-info").mkdir(parents=True)
        (tmp_path / pid / "exe").symlink_to(program)
    (tmp_path / "44").mkdir()
    (tmp_path / "meminfo").write_text("MemTotal: 1 kB\n")
    assert software.ray_running(os.fspath(tmp_path)) == {site: "2.43.0"}
