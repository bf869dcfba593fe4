"""How does a node load code that was never written to its disk?

The text of this file is sent first, with a call of ``start`` at its end; it needs nothing but the interpreter.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec

ROOT = "preflight"


class MemoryFinder(MetaPathFinder):
    """Finds modules in dictionaries: name -> source text, code object or the bytes of an extension module.

    It stands first in sys.meta_path: a preflight installed on the node must never win over the one sent.
    """

    def __init__(self, sources, packages, extensions):
        self.sources = sources
        self.packages = packages
        self.extensions = extensions
        self.memfds = {}

    def find_spec(self, name, path=None, target=None):
        """The spec of a module that we hold, None for every other."""
        if name in self.extensions:
            location = self._memory_file(name)
            return ModuleSpec(name, ExtensionFileLoader(name, location), origin=location)
        if name not in self.sources:
            return None
        return ModuleSpec(name, self, origin="<sent>/" + name, is_package=name in self.packages)

    def _memory_file(self, name):
        # A memfd has no name in any file system; it lives exactly as long as this process.
        import os

        if name not in self.memfds:
            create = getattr(os, "memfd_create", None) or _memfd_create
            self.memfds[name] = create(name.rpartition(".")[2], 1)
            view = memoryview(self.extensions[name])
            while view:
                view = view[os.write(self.memfds[name], view) :]
        return "/proc/self/fd/%d" % self.memfds[name]

    def create_module(self, spec):
        """The default module."""
        return

    def exec_module(self, module):
        """Run the module's code in its namespace."""
        code = self.sources[module.__name__]
        if isinstance(code, str):
            code = compile(code, "<sent>/" + module.__name__, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - this is what a loader does

    def get_source(self, name):
        """The text, for tracebacks."""
        code = self.sources.get(name)
        return code if isinstance(code, str) else None


def _memfd_create(name, flags):
    """memfd_create by system call: some distributions built Python without the function."""
    import ctypes
    import os

    number = {"x86_64": 319, "aarch64": 279, "ppc64le": 360}[os.uname().machine]
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(number, name.encode(), flags)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "memfd_create")
    return descriptor


def start(sources, marker):
    """Install the finder for the sources sent and run the keeper until it ends."""
    finder = MemoryFinder(sources, {ROOT, ROOT + ".node"}, {})
    for name in [loaded for loaded in sys.modules if loaded == ROOT or loaded.startswith(ROOT + ".")]:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    from preflight.node import keeper

    keeper.main(marker, finder)
