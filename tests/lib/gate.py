"""A TCP gate in front of a server, to break one address at a time: the catalog without the object store, or the reverse.

    with Gate(port) as gate:            # gate.port forwards to 127.0.0.1:port
        gate.close()                    # connections are refused and open ones are cut
        gate.hang()                     # connections are taken, and nothing is answered
        gate.open()
        gate.lose_answer(b"POST /v1/")  # the next request that holds these bytes is carried out, its answer is lost
        gate.answer(b"POST /v1/", 503)  # it is answered so, and never carried out
        gate.hold(b"POST /v1/")         # when it comes, it and everything after it hangs; gate.held says that it came
        gate.hold_answer(b"POST /v1/")  # it is carried out, then everything hangs
    A held request is dropped by close() and carried out by open().
"""

from __future__ import annotations

import selectors
import socket
import threading
from dataclasses import dataclass, field


@dataclass
class Fault:
    match: bytes
    times: int
    status: int | None = None  # None: carried out, answer lost
    hold: str = ""  # "request" or "answer": hang from there on


@dataclass
class Gate:
    target: int
    port: int = 0
    requests: int = 0  # connections carried through
    pieces: int = 0  # of data that clients sent on them
    _faults: list[Fault] = field(default_factory=list)
    _pairs: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listener: socket.socket | None = None
    _hanging: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Gate":
        self.open()
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def open(self) -> None:
        self._hanging.clear()
        if self._listener is not None:
            return
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._hanging.clear()
        self._cut()

    def hang(self) -> None:
        self._hanging.set()

    def lose_answer(self, match: bytes, times: int = 1) -> None:
        self._faults.append(Fault(match, times))

    def answer(self, match: bytes, status: int, times: int = 1) -> None:
        self._faults.append(Fault(match, times, status))

    def hold(self, match: bytes) -> None:
        self._hold(match, "request")

    def hold_answer(self, match: bytes) -> None:
        self._hold(match, "answer")

    def _hold(self, match: bytes, where: str) -> None:
        self.held.clear()
        self._faults.append(Fault(match, 1, hold=where))

    def forget_faults(self) -> None:
        self._faults.clear()

    @property
    def faults_left(self) -> int:
        return sum(fault.times for fault in self._faults)

    def _cut(self) -> None:
        with self._lock:
            for open_socket in self._pairs:
                try:
                    open_socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        """One connection, both directions, until either side ends it."""
        try:
            server = socket.create_connection(("127.0.0.1", self.target), timeout=10)
        except OSError:
            client.close()
            return
        self.requests += 1
        with self._lock:
            self._pairs |= {client, server}
        try:
            self._pump(client, server)
        except OSError:
            pass
        finally:
            with self._lock:
                self._pairs -= {client, server}
            client.close()
            server.close()

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        losing = holding = False
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(timeout=0.1):
                    if self._hanging.is_set():
                        self._wait_while_hanging(client)
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        return
                    if key.fileobj is server:
                        if losing:
                            return
                        if holding:
                            holding = False
                            self._begin_to_hang()
                            self._wait_while_hanging(client)
                        client.sendall(data)
                        continue
                    self.pieces += 1
                    fault = self._take(data)
                    if fault is not None and fault.status is not None:
                        client.sendall(_response(fault.status))
                        return
                    if fault is not None and fault.hold == "request":
                        self._begin_to_hang()
                        self._wait_while_hanging(client)
                    holding = holding or (fault is not None and fault.hold == "answer")
                    losing = losing or (fault is not None and not fault.hold)
                    server.sendall(data)

    def _begin_to_hang(self) -> None:
        self._hanging.set()
        self.held.set()

    def _wait_while_hanging(self, client: socket.socket) -> None:
        while self._hanging.is_set():
            if client.fileno() < 0:
                return
            threading.Event().wait(0.05)

    def _take(self, data: bytes) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.times > 0 and fault.match in data:
                    fault.times -= 1
                    return fault
        return None


def _response(status: int) -> bytes:
    body = b'{"error": {"message": "put in by a test", "type": "TestFault", "code": %d}}' % status
    head = b"HTTP/1.1 %d Fault\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, len(body)) + body
