"""Stands between client and server, and holds, cuts or delays what passes: a COMMIT above all."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress

COMMIT = b"COMMIT"
CHUNK = 1 << 16


class Link:
    """A connection of a client, and its counterpart to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        # What the server still says is heard by nobody.
        self.is_deaf = False
        # The server's side stays open although the client's is gone.
        self.is_held = False

    def cut_client(self) -> None:
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)

    def cut_server(self) -> None:
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens on the loopback; what it does to one COMMIT is decided beforehand."""

    def __init__(self, server_socket: str, database: str) -> None:
        self.server_socket = server_socket
        self.database = database
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.lock = threading.Lock()
        self.links: list[Link] = []
        self.seen = 0
        self.at = 0
        self.mode = ""
        self.delay = 0.0
        self.cuts_all = False
        self.refuses = False
        self.rng = random.Random(0)
        # The COMMIT that was waited for came; and what was to be done with it is done.
        self.caught = threading.Event()
        self.done = threading.Event()
        self.is_closed = False
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def url(self) -> str:
        host, port = self.listener.getsockname()
        return f"postgresql://postgres@{host}:{port}/{self.database}"

    def arm(self, at: int, mode: str, delay: float, cuts_all: bool, seed: float) -> None:
        """What happens to the COMMIT of this number."""
        self.seen, self.at, self.mode, self.delay = 0, at, mode, delay
        self.cuts_all, self.refuses, self.rng = cuts_all, False, random.Random(seed)
        self.caught.clear()
        self.done.clear()

    def _listen(self) -> None:
        while not self.is_closed:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.server_socket)
            except OSError:
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, server)
            with self.lock:
                self.links.append(link)
            for pump in (self._to_server, self._to_client):
                threading.Thread(target=pump, args=(link,), daemon=True).start()

    def _to_server(self, link: Link) -> None:
        while True:
            chunk = self._read(link.client)
            if not chunk:
                break
            if COMMIT in chunk and self._is_it():
                self._catch(link, chunk)
                continue
            if self.mode == "slow" and self.caught.is_set():
                time.sleep(self.rng.random() * 0.02)
            if not self._write(link.server, chunk):
                break
        if not link.is_held:
            link.cut_server()

    def _to_client(self, link: Link) -> None:
        while True:
            chunk = self._read(link.server)
            if not chunk:
                break
            if not link.is_deaf and not self._write(link.client, chunk) and not link.is_held:
                break
        link.cut_client()

    def _is_it(self) -> bool:
        with self.lock:
            self.seen += 1
            return self.seen == self.at

    def _catch(self, link: Link, chunk: bytes) -> None:
        """Does to this COMMIT what was decided."""
        if self.mode == "slow":
            self.caught.set()
            time.sleep(self.delay)
            self._write(link.server, chunk)
            self.done.set()
            return
        link.is_deaf = link.is_held = True
        if self.mode == "unheard":
            self._write(link.server, chunk)
        if self.mode == "given up":
            self.refuses = True
        if self.cuts_all or self.refuses:
            for other in list(self.links):
                if other is not link:
                    other.cut_client()
        self.caught.set()
        link.cut_client()
        threading.Thread(target=self._late, args=(link, chunk), daemon=True).start()

    def _late(self, link: Link, chunk: bytes) -> None:
        """The end of a connection whose client is gone; its COMMIT may come only now."""
        time.sleep(self.delay)
        if self.mode in ("late", "given up"):
            self._write(link.server, chunk)
            # A COMMIT that has come is carried out before the end of the connection is seen.
            time.sleep(0.3)
        link.is_held = False
        link.cut_server()
        self.done.set()

    def heal(self) -> None:
        """New connections pass again."""
        self.refuses = False

    @staticmethod
    def _read(one: socket.socket) -> bytes:
        with suppress(OSError):
            return one.recv(CHUNK)
        return b""

    @staticmethod
    def _write(one: socket.socket, chunk: bytes) -> bool:
        with suppress(OSError):
            one.sendall(chunk)
            return True
        return False

    def close(self) -> None:
        self.is_closed = True
        self.listener.close()
        for link in self.links:
            for one in (link.client, link.server):
                with suppress(OSError):
                    one.close()
