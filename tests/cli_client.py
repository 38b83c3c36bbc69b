"""Runs one command in the process of ``cli_process``: arguments SOCKET PROGRAM ARGUMENT... Loads next to nothing itself.

What it was given (files, folder, environment, arguments) the command gets; a signal is passed on, and the command's end
is its own. When it is killed, so is the command.
"""

import os
import signal
import socket
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    server = socket.socket(socket.AF_UNIX)
    for number in SIGNALS:
        signal.signal(number, lambda received, _: server.send(bytes([received])))
    server.connect(sys.argv[1])
    listed = [os.fsencode(part) for part in sys.argv[2:]]
    environment = [name + b"=" + value for name, value in os.environb.items()]
    order = b"\0".join([os.getcwdb(), b"%d" % len(listed), *listed, *environment])
    socket.send_fds(server, [len(order).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(order)
    os.closerange(0, 3)  # the command's alone from now on
    answer = server.recv(4)
    code = int.from_bytes(answer, "big", signed=True) if answer else 70  # the server is gone
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
