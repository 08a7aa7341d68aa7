"""Object stores of the tests' own, on loopback; and a way to them that fails now and then."""

from __future__ import annotations

import http.client
import os
import random
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

Kind = TypeVar("Kind", bound="WebServer")
REPOSITORY = Path(__file__).resolve().parents[2]
AZURITE = REPOSITORY / ".cache" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
KEYS = {
    "AWS_ACCESS_KEY_ID": "tester",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(command: list[str], port: int, **environment: str) -> Iterator[str]:
    """A server's URL, once it answers."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, f"{command[0]} has ended"
                assert time.monotonic() < deadline, f"{command[0]} does not answer"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        # What they hold is a test's; some wait for connections that are kept alive.
        process.kill()
        process.wait(30)


@contextmanager
def moto() -> Iterator[str]:
    """S3, as moto has it."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with served(command, port) as url:
        yield url


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """Azure's blobs, as azurite has them."""
    port = free_port()
    command = [str(AZURITE), "--blobPort", str(port), "--location", str(folder), "--silent"]
    with served([*command, "--skipApiVersionCheck"], port) as url:
        yield url


def has_azurite() -> bool:
    return AZURITE.exists() and shutil.which("node") is not None


def put(url: str, body: bytes) -> None:
    """Puts an object that all may read, or makes a bucket. Moto checks no signatures."""
    scope = "tester/20260101/us-east-1/s3/aws4_request"
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
        "Content-Type": "application/octet-stream",
        "x-amz-acl": "public-read",
    }
    request = urllib.request.Request(url, data=body, method="PUT", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status in (200, 201), answer.status


def self_signed(folder: Path) -> Path:
    """A key and a certificate for this machine that nobody else has signed, in one file."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a web server of tests")])
    now = datetime.datetime.now(datetime.timezone.utc)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(here, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "certificate.pem"
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return file


KINDS = ("503", "429", "slow", "cut", "reset")


@dataclass
class Faults:
    """What goes wrong on the way, and how often it did."""

    share: float = 0.0
    most: int = 0
    seed: int = 1
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()

    def next(self, asked: int) -> str | None:
        with self._lock:
            if sum(self.done.values()) >= self.most or asked == 0:
                return None
            if self._random.random() >= self.share:
                return None
            kind = self._random.choice(KINDS)
            self.done[kind] += 1
            return kind


class WebServer:
    """A web server of this process, which answers by `answer` until its block ends."""

    def __init__(self, certificate: Path | None = None) -> None:
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body are sent apart.
            disable_nagle_algorithm = True

            def log_message(self, *arguments: object) -> None:
                pass

            def any(self) -> None:
                served.answer(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = any

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if certificate is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self: Kind) -> Kind:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *ended: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        raise NotImplementedError


class Proxy(WebServer):
    """The way to a server: makes requests fail, and calls back before each."""

    def __init__(self, upstream: str, faults: Faults | None = None) -> None:
        super().__init__()
        self.upstream = upstream.removeprefix("http://")
        self.faults = faults or Faults()
        self.before: Callable[[str, str, str], None] = lambda method, path, asked: None

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range", "")
        self.before(handler.command, handler.path, asked)
        fault = self.faults.next(length_of(asked)) if handler.command == "GET" else None
        if fault in ("503", "429"):
            body = (
                b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
            )
            handler.send_response(int(fault))
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
            return
        sent = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection(self.upstream, timeout=60)
        connection.request(handler.command, handler.path, sent, dict(handler.headers))
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if fault == "reset":
            _reset(handler)
            return
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                handler.send_header(name, value)
        length = answer.getheader("Content-Length") if handler.command == "HEAD" else len(body)
        handler.send_header("Content-Length", str(length or 0))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        if fault == "cut":
            handler.wfile.write(body[: len(body) // 2])
            handler.close_connection = True
            return
        if fault == "slow":
            for at in range(0, len(body), max(len(body) // 8, 1)):
                handler.wfile.write(body[at : at + max(len(body) // 8, 1)])
                time.sleep(0.1)
            return
        handler.wfile.write(body)


def length_of(asked: str) -> int:
    """Bytes of a range, as a header asks for it."""
    if not asked.startswith("bytes="):
        return 0
    first, _, last = asked.removeprefix("bytes=").partition("-")
    return int(last) - int(first) + 1 if first and last else 0


def _reset(handler: BaseHTTPRequestHandler) -> None:
    """Ends a connection as a host does that has crashed."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


class Web(WebServer):
    """A web server with a few files; it may know no ranges or no ETags, and ask for a password."""

    def __init__(
        self,
        files: dict[str, bytes],
        *,
        ranges: bool = True,
        etags: bool = True,
        certificate: Path | None = None,
    ) -> None:
        super().__init__(certificate)
        self.files = files
        self.ranges = ranges
        self.etags = etags
        self.authorization: str | None = None
        self.query: str | None = None
        # Whether it says when a file was written.
        self.times = True
        # Where all requests are sent on to.
        self.elsewhere: str | None = None
        self.referers: list[str | None] = []
        # Bytes a second of all answers together; None as fast as it goes.
        self.rate: float | None = None
        self._free_at = 0.0
        self._lock = threading.Lock()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path, _, query = handler.path.partition("?")
        body = self.files.get(path)
        status, headers = 200, {}
        self.referers.append(handler.headers.get("Referer"))
        if self.times:
            headers["Last-Modified"] = "Thu, 01 Jan 2026 00:00:00 GMT"
        if self.elsewhere is not None:
            status, body, headers["Location"] = 302, b"", self.elsewhere + path
        elif self.query is not None and query != self.query:
            status, body = 403, b"<Error><Code>AccessDenied</Code></Error>"
        elif self.authorization and handler.headers.get("Authorization") != self.authorization:
            status, body = 401, b""
        elif body is None:
            status, body = 404, b""
        else:
            etag = f'"{id(body):x}"'
            if self.etags:
                headers["ETag"] = etag
            asked = handler.headers.get("Range")
            expected = handler.headers.get("If-Match")
            if self.etags and expected and expected != etag:
                status, body = 412, b""
            elif self.ranges and asked:
                first, _, last = asked.removeprefix("bytes=").partition("-")
                whole = len(body)
                if int(first) >= whole:
                    status, body = 416, b""
                else:
                    body = memoryview(body)[int(first) : int(last) + 1]
                    status = 206
                    end = int(first) + len(body) - 1
                    headers["Content-Range"] = f"bytes {first}-{end}/{whole}"
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command == "GET":
            self.send(handler, body)

    def send(self, handler: BaseHTTPRequestHandler, body: bytes | memoryview) -> None:
        """Sends a body, in portions that take their turn on the link."""
        if self.rate is None:
            handler.wfile.write(body)
            return
        step = 256 * 1024
        for at in range(0, len(body), step):
            portion = body[at : at + step]
            with self._lock:
                now = time.monotonic()
                begin = max(self._free_at, now)
                self._free_at = begin + len(portion) / self.rate
            if begin > now:
                time.sleep(begin - now)
            handler.wfile.write(portion)
