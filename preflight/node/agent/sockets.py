"""How does a node use sockets without the library's own module, which makes enums of all their constants in 4 ms?

What is here is that module's own C part, by the same names: ``from preflight.node.agent import sockets as socket``. It
has no create_connection, no getfqdn and no makefile.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import *  # noqa: F403
    from typing import Any
else:
    import _socket
    from _socket import *  # noqa: F403

    class Socket(_socket.socket):
        """A socket that closes at the end of a ``with``, as those that it accepts do."""

        __slots__ = ()

        def __enter__(self) -> Socket:  # noqa: PYI034 - Self is not in Python 3.9
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def accept(self) -> tuple[Socket, Any]:
            """A connection and the address of its other end."""
            descriptor, address = self._accept()
            return Socket(fileno=descriptor), address

    socket = Socket
