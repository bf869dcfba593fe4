"""Are a node's sockets those of the library, without what that costs to load?"""

import subprocess
import sys

from preflight.node.agent import sockets


def test_a_socket_closes_with_its_block_and_so_does_what_it_accepts():
    """A listener, whoever connects, and the address that is told."""
    with sockets.socket(sockets.AF_INET, sockets.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        with sockets.socket(sockets.AF_INET, sockets.SOCK_STREAM) as caller:
            caller.connect(listener.getsockname())
            accepted, address = listener.accept()
            assert address == caller.getsockname()
            with accepted:
                accepted.send(b"word")
            assert caller.recv(10) == b"word"
            assert accepted.fileno() == -1
    assert listener.fileno() == -1


def test_neither_enums_nor_the_module_itself_are_loaded():
    """On a node that is asked for its facts they would be the larger part of what is imported."""
    program = "import sys; from preflight.node.agent import keeper; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=30, check=True)
    dear = {"socket", "selectors", "subprocess", "ctypes", "shutil", "signal", "json"}
    bare = subprocess.run(
        [sys.executable, "-B", "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert not dear & (set(done.stdout.split()) - set(bare.stdout.split()))
