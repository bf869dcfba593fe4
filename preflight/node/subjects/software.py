"""Which interpreter, torch and libraries will the job have here, found without importing any of them?"""

from __future__ import annotations

import os
import sys

from preflight.node.agent import roots
from preflight.node.agent.missing import missing
from preflight.node.sources.metadata import installed, names_in, requirements
from preflight.node.subjects.environment import job_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from preflight.node.agent.missing import TextOrMissing

    Variables = Mapping[str, tuple[str, str]]

SYSTEM_LIBRARIES = (
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
# Where environments of conda, venv, virtualenv and pyenv lie, each with bin/python3; "~" is the user's home.
ENVIRONMENTS = (
    *("~/.venv", "~/venv", "~/env", "~/*/.venv", "~/*/venv", "~/.virtualenvs/*", "~/.py*/versions/*"),
    *(
        f"{place}/{name}{part}"
        for place in ("~", "/opt", "/usr/local")
        for name in ("conda", "miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")
        for part in ("", "/envs/*")
    ),
    *("~/.conda/envs/*", "~/.local/share/mamba/envs/*", "~/.mamba/envs/*"),
    *("~/.cache/pypoetry/virtualenvs/*", "~/.local/share/virtualenvs/*"),
    *("/opt/*", "/opt/*/*", "/venv", "/venv/*", "/app/.venv", "/workspace/venv", "/workspace/.venv"),
    *("/usr/local", "/usr"),
)
MOST_ENVIRONMENTS = 200
EFA_LIBRARIES = ("/opt/amazon/efa/lib", "/opt/amazon/efa/lib64")
LINKER_CACHE = "/etc/ld.so.cache"
CPU_BUILD = "this torch is a CPU build"

RAY_PROGRAMS = ("raylet/raylet", "gcs/gcs_server")


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject software."""
    roots.only_here(arguments)
    variables = job_variables(arguments)
    path = search_path(variables)
    found = installed(path)
    packages = {name: version for name, (version, _) in found.items()}
    folders = variables.get("LD_LIBRARY_PATH", ("", ""))[0].split(":")
    torch = torch_facts(path, packages, library_folders=folders)
    plugins = nccl_plugins(folders)
    preloaded = variables.get("LD_PRELOAD", ("", ""))[0].replace(":", " ").split()
    return {
        "python": sys.version.split()[0],
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "libc": libc(),
        "keeps_pip_out": keeps_pip_out(),
        "packages": packages,
        **torch,
        "torch_elsewhere": torch_elsewhere(prefixes(variables, arguments)) if isinstance(torch["torch"], dict) else {},
        "requirements": requirements(found),
        "nccl_copies": nccl_copies(path, packages, folders),
        "nccl_plugins": plugins,
        **({"plugins_lacking": lacking} if (lacking := plugins_lacking(plugins, folders)) else {}),
        "put_first": put_first(folders),
        "ray_running": ray_running(arguments.get("proc", "/proc")),
        "nccl_preloaded": next((word for word in preloaded if "libnccl" in word), ""),
    }


def ray_running(proc: str) -> dict[str, str]:
    """The folders whose Ray runs on this node -> its version; of another container's too, where it may be read."""
    found: dict[str, str] = {}
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            folder, _, rest = os.readlink(f"{proc}/{entry}/exe").partition("/ray/core/src/ray/")
            if rest in RAY_PROGRAMS:
                names = os.listdir(f"{proc}/{entry}/root{folder}")
                found.update(
                    (folder, name[4:-10]) for name in names if name[:4] == "ray-" and name[-10:] == ".dist-info"
                )
        except OSError:
            continue  # one that has ended, or of another user
    return found


def keeps_pip_out() -> bool:
    """Whether the system keeps this Python for itself: pip then refuses to install into it (PEP 668)."""
    marker = f"{os.path.dirname(os.__file__)}/EXTERNALLY-MANAGED"
    return sys.prefix == sys.base_prefix and os.path.exists(marker)


def libc() -> str:
    """Name and version of the C library."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        version = None
    return version or "not glibc"


def search_path(variables: Variables) -> list[str]:
    """Where the job's Python looks for packages: ours runs isolated (-I) and leaves out PYTHONPATH and every site."""
    given = [os.path.abspath(entry) for entry in variables.get("PYTHONPATH", ("", ""))[0].split(":") if entry]
    no_user_site = bool(variables.get("PYTHONNOUSERSITE", ("", ""))[0])
    installed_in = own_site()  # also says of which environment we are
    user = [] if no_user_site else user_site(sys.prefix)
    return list(dict.fromkeys([*given, *user, *(entry for entry in sys.path if entry), *installed_in]))


def own_site() -> list[str]:
    """The folders of packages of this Python, which is made one of its virtual environment, as `site` makes it.

    We are started without `site` (-S): it takes a fifth of the interpreter's start, and it runs what .pth files and
    sitecustomize.py hold, which may print, fail, or import half of a cluster's file system.
    """
    import site

    program = os.path.dirname(os.path.abspath(sys.executable))
    for place in (program, os.path.dirname(program)):
        if os.path.isfile(f"{place}/pyvenv.cfg"):
            sys.prefix = sys.exec_prefix = os.path.dirname(program)
            others = [sys.base_prefix] if sees_system_packages(f"{place}/pyvenv.cfg") else []
            return list(with_named(site.getsitepackages([sys.prefix, *others])))
    return list(with_named(site.getsitepackages([sys.prefix, sys.exec_prefix])))


def with_named(folders: Iterable[str]) -> Iterator[str]:
    """Folders of packages, each followed by those that its .pth files name; a folder is listed when more are wanted."""
    for folder in folders:
        yield folder
        for name in sorted(name for name in names_in(folder) if name.endswith(".pth") and not name.startswith(".")):
            lines = (line.strip() for line in read(f"{folder}/{name}").splitlines())
            named = [line for line in lines if line and not line.startswith(("#", "import ", "import\t"))]
            yield from (os.path.normpath(os.path.join(folder, line)) for line in named[:MOST_ENVIRONMENTS])


def user_site(prefix: str) -> list[str]:
    """The user's own site-packages with the folders that its .pth files add, where this Python uses it."""
    import site

    if os.path.exists(f"{prefix}/pyvenv.cfg") and not sees_system_packages(f"{prefix}/pyvenv.cfg"):
        return []
    folder = site.getusersitepackages()
    return list(with_named([folder])) if os.path.isdir(folder) else []


def sees_system_packages(configuration: str) -> bool:
    """Whether a virtual environment lets packages outside of it in; one that does not say so does."""
    for line in read(configuration).splitlines():
        name, _, value = line.partition("=")
        if name.strip().lower() == "include-system-site-packages":
            return value.strip().lower() == "true"
    return True


def torch_facts(path: Iterable[str], packages: Mapping[str, str], *, library_folders: list[str]) -> dict[str, Any]:
    """What torch says of itself in version.py, and the libraries it would load."""
    folder = next((f"{entry}/torch" for entry in path if os.path.isfile(f"{entry}/torch/__init__.py")), "")
    if not folder:
        reason = missing("not installed", "absent")
        if "torch" in packages:
            reason = missing("its metadata is installed, but no torch folder is on the search path")
        return dict.fromkeys(("torch", "torch_cuda", "torch_hip", "cudnn", "nccl"), reason)
    try:
        with open(f"{folder}/version.py", encoding="utf-8") as file:
            values = constants(file.read(), name=file.name)
    except (OSError, SyntaxError, ValueError) as error:
        reason = missing(f"{folder}/version.py: {error}")
        facts: dict[str, TextOrMissing] = dict.fromkeys(("torch", "torch_cuda", "torch_hip"), reason)
        cuda = ""
    else:
        cuda = values.get("cuda") or ""
        # torch writes both, one of them or both None: a file without them ends too early.
        cut = next((name for name in ("cuda", "hip") if name not in values and not cuda), "")
        lost = missing(f"{folder}/version.py does not set {cut}")
        version = values.get("__version__")
        facts = {
            "torch": version or missing(f"{folder}/version.py sets no __version__"),
            "torch_cuda": cuda
            or (lost if cut else missing("built for ROCm" if values.get("hip") else CPU_BUILD, "absent")),
            "torch_hip": values.get("hip")
            or (lost if cut else missing("built for CUDA" if cuda else CPU_BUILD, "absent")),
        }
    return {
        **facts,
        "cudnn": library("cudnn", packages, cuda=cuda) or missing("no nvidia-cudnn distribution", "absent"),
        "nccl": library("nccl", packages, cuda=cuda)
        or nccl_file([f"{folder}/lib", *library_folders, *SYSTEM_LIBRARIES])
        or missing("no nvidia-nccl distribution and no libnccl.so.2", "absent"),
    }


def prefixes(variables: Variables, arguments: Mapping[str, Any]) -> Iterator[str]:
    """The environments that this node may have, one by one, for a look at them all takes long.

    First those that are active, the controller's own and those that conda lists, then those in the usual places.
    """
    home = os.path.expanduser("~")
    active = [variables.get(name, ("", ""))[0] or os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    yield from active
    yield os.path.dirname(os.path.dirname(arguments.get("interpreter", "")))
    yield from read(f"{home}/.conda/environments.txt").splitlines()
    for pattern in ENVIRONMENTS:
        yield from matching(os.path.expanduser(pattern))


def matching(pattern: str) -> list[str]:
    """The paths of a pattern with at most one * in each of its names; `import glob` would take longer than the look."""
    found = [""]
    for part in pattern.split("/")[1:]:
        if "*" in part:
            found = [f"{one}/{name}" for one in found for name in sorted(names_in(one or "/")) if fits(name, part)]
        else:
            found = [f"{one}/{part}" for one in found]
    return [path for path in found if os.path.lexists(path)]


def fits(name: str, pattern: str) -> bool:
    """Whether a name is one of a pattern with one *, which stands for no name that begins with a dot."""
    start, _, end = pattern.partition("*")
    is_hidden = name.startswith(".") and not start
    return name.startswith(start) and name[len(start) :].endswith(end) and not is_hidden


def torch_elsewhere(folders: Iterable[str]) -> dict[str, str]:
    """The interpreter of the first of these environments that has torch -> the version that its version.py says."""
    looked_at: set[str] = set()
    for folder in folders:
        if len(looked_at) == MOST_ENVIRONMENTS:
            break
        python = f"{folder}/bin/python3"
        if folder and folder not in looked_at and os.access(python, os.X_OK):
            for place in libraries(folder):
                version = version_of_torch(f"{place}/torch/version.py")
                if version:
                    return {python: version}
        looked_at.add(folder)
    return {}


def libraries(folder: str) -> Iterator[str]:
    """Where an environment finds packages: its own folders, those of its .pth files, those that it is made on."""
    return with_named(
        f"{prefix}/lib/{library}/{part}"
        for prefix in (folder, *base_of(folder))
        for library in sorted(names_in(f"{prefix}/lib"))
        if library.startswith("python3")
        for part in ("site-packages", "dist-packages")
    )


def base_of(folder: str) -> list[str]:
    """The installation whose packages an environment sees too, where it was made so."""
    reported = dict(line.replace(" ", "").partition("=")[::2] for line in read(f"{folder}/pyvenv.cfg").splitlines())
    if reported.get("include-system-site-packages", "").lower() != "true" or not reported.get("home"):
        return []
    return [os.path.dirname(reported["home"].rstrip("/"))]


def version_of_torch(path: str) -> str:
    """What a version.py says, "" where there is none or it says nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            return constants(file.read(), name=path).get("__version__") or ""
    except (OSError, SyntaxError, ValueError):
        return ""


def constants(source: str, *, name: str) -> dict[str, str | None]:
    """The module-level names that are set to a string or None; nothing is run."""
    import _ast  # `import ast` would cost more than all the rest of this file

    tree: Any = compile(source, name, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    found: dict[str, str | None] = {}
    for node in tree.body:
        if isinstance(node, _ast.Assign):
            targets = node.targets
        elif isinstance(node, _ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        if isinstance(node.value, _ast.Constant) and (node.value.value is None or isinstance(node.value.value, str)):
            found.update((target.id, node.value.value) for target in targets if isinstance(target, _ast.Name))
    return found


def library(name: str, packages: Mapping[str, str], *, cuda: str) -> str:
    """The version of nvidia-<name>-cu<major>: the one for torch's CUDA where several are installed."""
    start = f"nvidia-{name}-cu"
    exact = start + cuda.partition(".")[0]
    if cuda and exact in packages:
        return packages[exact]
    return max((version for package, version in packages.items() if package.startswith(start)), default="")


def nccl_file(folders: Iterable[str]) -> str:
    """The version in the real name of the first libnccl.so.2 in these folders."""
    for folder in folders:
        if folder and os.path.exists(f"{folder}/libnccl.so.2"):
            version = os.path.realpath(f"{folder}/libnccl.so.2").rpartition("libnccl.so.")[2]
            if version.count(".") >= 2 and version.replace(".", "").isdecimal():
                return version
    return ""


PLUGINS = ("libnccl-net", "librccl-net", "librccl-anp")  # of NCCL, and AMD's of RCCL


def nccl_plugins(folders: Iterable[str], cache: str = LINKER_CACHE) -> list[str]:
    """The network plugins that NCCL finds: in these folders, in the system's, and those of the linker's cache.

    A folder of the system holds thousands of files. What was put there under another name than NCCL's own, it finds by
    the cache alone.
    """
    found = [f"{folder}/{name}" for folder in dict.fromkeys(folders) if folder for name in plugins_in(folder)]
    own = [f"{folder}/{name}.so" for folder in SYSTEM_LIBRARIES for name in PLUGINS]
    known: list[str] = []
    try:
        with open(cache, "rb") as file:
            text = file.read()
        entries = text.split(b"\0") if any(b"/%s" % name.encode() in text for name in PLUGINS) else []
        names = (entry.decode("utf-8", "backslashreplace") for entry in entries if entry.startswith(b"/"))
        known = [name for name in names if os.path.basename(name).startswith(PLUGINS)]
    except OSError:  # a system without such a cache
        pass
    return list(dict.fromkeys([*found, *(path for path in (*own, *known) if os.path.exists(path))]))


def plugins_in(folder: str) -> list[str]:
    """The plugins in a folder, by their files' names."""
    return sorted(name for name in names_in(folder) if name.startswith(PLUGINS) and ".so" in name)


# Libraries whose version or build changes what a job does.
PUT_FIRST = (
    *("libnccl-net", "librccl-net", "libcuda", "libcudart", "libcublas", "libcudnn", "libamdhip64"),
    *("libfabric", "libibverbs", "libmpi", "libucp", "libstdc++"),
)


def plugins_lacking(found: list[str], folders: list[str]) -> list[str]:
    """What of libfabric these plugins need and the node does not have."""
    if not found:
        return []
    from preflight.node.sources.gpus import plugins

    return plugins.lacking(found, [*folders, *SYSTEM_LIBRARIES, *EFA_LIBRARIES], LINKER_CACHE)


def put_first(folders: Iterable[str]) -> list[str]:
    """The libraries that LD_LIBRARY_PATH puts before those of torch and of the system."""
    return sorted({name for folder in folders if folder for name in names_in(folder) if is_asked_for(name)})


def is_asked_for(name: str) -> bool:
    """Whether programs ask the loader for one of these by this name: "libcudart.so.12", "libnccl-net.so"."""
    library, dot, version = name.partition(".so")
    is_plugin = bool(dot) and not version and library.endswith("-net")  # NCCL asks for its plugins without a version
    return library in PUT_FIRST and (is_plugin or (version.startswith(".") and version[1:].isdecimal()))


def nccl_copies(path: Iterable[str], packages: Mapping[str, str], folders: list[str]) -> dict[str, str]:
    """Every libnccl.so.2 that a process of the job may meet, with the version from its name or its package."""
    of_wheels = [f"{entry}/{part}" for entry in path for part in ("nvidia/nccl/lib", "torch/lib")]
    found: dict[str, str] = {}
    for folder in (*of_wheels, *folders, *SYSTEM_LIBRARIES):
        file = f"{folder}/libnccl.so.2"
        if folder and os.path.exists(file) and os.path.realpath(file) not in found:
            version = nccl_file([folder])
            if not version and folder.endswith("nvidia/nccl/lib"):
                version = library("nccl", packages, cuda="")
            found[os.path.realpath(file)] = version
    return found


def read(path: str) -> str:
    """A text file, or nothing where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            return file.read()
    except OSError:
        return ""
