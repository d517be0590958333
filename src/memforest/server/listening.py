"""The socket that a server listens on."""

from __future__ import annotations

import socket

from memforest.access import is_loopback
from memforest.errors import ConfigError

BACKLOG = 2048
OTHERS = "--port takes another one (0 for any that is free), --host another address"


def listen(host: str, port: int, fix: str = OTHERS) -> socket.socket:
    """Return a socket that listens on an address; port 0 is any that is free.

    A name of this machine alone is never bound to another address, whatever it resolves to.

    Args:
        host: the address, or a name of it.
        port: of it.
        fix: what to do where that cannot be.

    Raises:
        ConfigError: if there is no such address, or the port is in use or not allowed. It says what to do.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        if is_loopback(host):
            found = [one for one in found if is_loopback(str(one[4][0]))]
            if not found:
                raise ConfigError(
                    f"{host} is not this machine here (see the hosts file); --host 127.0.0.1 is"
                )
        family, kind, protocol, _, address = found[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(BACKLOG)
        except BaseException:
            made.close()
            raise
    except (OSError, UnicodeError) as exc:
        why = getattr(exc, "strerror", None) or exc
        raise ConfigError(f"cannot listen on {host} port {port}: {why}; {fix}") from exc
    made.set_inheritable(True)
    return made
