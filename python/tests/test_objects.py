"""Loads from object stores, against COPY of the same rows; and into them."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fullbore
import pytest
from embedded import Server
from stores import (
    KEYS,
    Faults,
    Proxy,
    Web,
    azurite,
    has_azurite,
    length_of,
    moto,
    put,
    self_signed,
)

pytestmark = pytest.mark.usefixtures("own_state")

ALL = os.environ.get("FULLBORE_TEST_ALL") == "1"
NEEDS_AZURITE = pytest.mark.skipif(not has_azurite(), reason="AZURITE IS MISSING: make servers")


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    with moto() as url:
        put(f"{url}/data", b"")
        yield url


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    # No profile of whoever runs the tests.
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))


def rows_of(count: int, seed: int = 1) -> str:
    """Rows of CSV with quotes, delimiters and line ends in them."""
    chance = random.Random(seed)
    words = ["plain", "one, two", 'a "quoted" word', "two\nlines", "", "äöü", "x" * 60]

    def field(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if text else ""

    return "".join(
        f"{n},{chance.randrange(10**9)},{field(chance.choice(words))}\n" for n in range(count)
    )


def loaded(server: Server, table: str) -> list[list[str]]:
    """Number of rows, and a sum over all of them."""
    return server.sql(
        f"SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {table} AS t"
    )


def expected(server: Server, text: str) -> list[list[str]]:
    """The same after plain COPY."""
    server.sql("DROP TABLE IF EXISTS plain; CREATE TABLE plain (n bigint, v bigint, t text)")
    said = "COPY plain FROM STDIN (FORMAT csv)"
    server.run("psql", "--", "-qX", "-c", said, text=text)
    return loaded(server, "plain")


def load(
    source: Any, server: Server, url: str | None = None, **options: Any
) -> fullbore.LoadResult:
    server.sql("DROP TABLE IF EXISTS t; CREATE TABLE t (n bigint, v bigint, t text)")
    store = {"store": {"endpoint": url}} if url else {}
    if options.get("format") != "parquet":
        options = {"format": "csv", "header": "none", **options}
    options = {**store, **options}
    return fullbore.load(source, table="t", to=server.url, **options)


def parts(text: str, count: int) -> list[str]:
    """A text in parts, cut where records begin."""
    lines = text.split("\n")
    starts = [n for n, line in enumerate(lines) if line.split(",")[0].isdigit()]
    cuts = [starts[len(starts) * part // count] for part in range(count)] + [len(lines)]
    found = ["\n".join(lines[a:b]) for a, b in itertools.pairwise(cuts)]
    return [part if part.endswith("\n") else part + "\n" for part in found]


def test_one_object_many_packed_ones_and_parquet_are_equal(s3: str, server: Server) -> None:
    text = rows_of(120_000)
    put(f"{s3}/data/one/rows.csv", text.encode())
    for number, part in enumerate(parts(text, 8)):
        put(f"{s3}/data/packed/rows.{number}.csv.gz", gzip.compress(part.encode(), 1))
    known = expected(server, text)
    assert load("s3://data/one/rows.csv", server, s3).rows == 120_000
    assert loaded(server, "t") == known
    sources = ["s3://data/packed/*.csv.gz", "s3://data/packed/", "s3://data/p*/**/*.gz"]
    for source in sources:
        load(source, server, s3)
        assert loaded(server, "t") == known, source
    # Written to the store, and read back from there.
    into = "parquet:s3://data/parquet/of"
    names = {"columns": ["n", "v", "t"], "types": ["n=bigint", "v=bigint", "t=text"]}
    options = {"format": "csv", "header": "none", "store": {"endpoint": s3}, "piece_size": "500kB"}
    written = fullbore.load("s3://data/one/rows.csv", to=into, **names, **options)
    assert written.rows == 120_000
    assert load("s3://data/parquet/of/", server, s3, format="parquet").rows == 120_000
    assert loaded(server, "t") == known


def test_cuts_within_an_object_are_where_records_begin(s3: str, server: Server) -> None:
    text = rows_of(60_000, seed=2)
    put(f"{s3}/data/cut.csv", text.encode())
    known = expected(server, text)
    for publish in ["append", "replace"]:
        options = {"piece_size": "200kB", "streams": 3, "publish": publish}
        load("s3://data/cut.csv", server, s3, **options)
        assert loaded(server, "t") == known, publish


def test_a_wrong_guess_of_a_cut_is_refused(s3: str, server: Server) -> None:
    # Half a megabyte within quotes that looks like rows and has no quote in it.
    odd = '1,1,"' + "2,2,x\n" * 100_000 + '"\n'
    text = rows_of(5_000) + odd + rows_of(5_000)
    put(f"{s3}/data/odd.csv", text.encode())
    known = expected(server, text)
    options = {"piece_size": "100kB", "streams": 2}
    with pytest.raises(fullbore.SourceError, match="inside quotes") as raised:
        load("s3://data/odd.csv", server, s3, publish="replace", method="copy", **options)
    assert "--scan-quotes" in str(raised.value.hint)
    assert server.sql("SELECT count(*) FROM t") == [["0"]]
    load(
        "s3://data/odd.csv",
        server,
        s3,
        publish="replace",
        method="copy",
        scan_quotes=True,
        **options,
    )
    assert loaded(server, "t") == known
    # Rows that are seen at once are never guessed.
    load("s3://data/odd.csv", server, s3, **options)
    assert loaded(server, "t") == known


def test_rejects_of_an_object_say_their_lines(s3: str, server: Server, tmp_path: Path) -> None:
    lines = [f"{n},{n},x" for n in range(50_000)]
    lines[40_123] = "no number,1,x"
    put(f"{s3}/data/bad.csv", "\n".join(lines).encode())
    with pytest.raises(fullbore.RejectsError) as raised:
        load("s3://data/bad.csv", server, s3, piece_size="100kB")
    assert "s3://data/bad.csv, line 40124, column n" in str(raised.value)


def test_what_is_missing_is_said_with_the_stores_words(s3: str, server: Server) -> None:
    wrong = [
        ("s3://data/none.csv", "NoSuchKey"),
        ("s3://none/*.csv", "NoSuchBucket"),
        ("s3://data/none/*.csv", "matches no object"),
    ]
    for source, words in wrong:
        with pytest.raises(fullbore.LoadError) as raised:
            load(source, server, s3)
        assert words in str(raised.value), raised.value


def test_credentials_are_asked_for_and_never_said(
    s3: str, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(f"{s3}/data/open.csv", b"1,2,x\n")
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]:
        monkeypatch.delenv(name)
    with pytest.raises(fullbore.LoadError) as raised:
        load("s3://data/open.csv", server, s3)
    assert "no AWS credentials were found" in str(raised.value)
    assert "--store profile=NAME" in str(raised.value.hint)
    assert load("s3://data/open.csv", server, None, store={"endpoint": s3, "anonymous": True}).rows
    # As its own tools find them: a profile with a process, and one with keys.
    keys = {"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "hidden-in-a-process"}
    config = tmp_path / "config"
    config.write_text(f"[profile of-process]\ncredential_process = echo '{json.dumps(keys)}'\n")
    credentials = tmp_path / "credentials"
    credentials.write_text("[of-keys]\naws_access_key_id = b\naws_secret_access_key = hidden\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    for profile in ["of-process", "of-keys"]:
        store = {"endpoint": s3, "profile": profile}
        assert load("s3://data/open.csv", server, None, store=store).rows == 1
    with pytest.raises(fullbore.LoadError) as raised:
        load("s3://data/no.csv", server, None, store={"endpoint": s3, "profile": "of-keys"})
    assert "hidden" not in str(raised.value)


def test_options_that_do_nothing_are_refused(server: Server, s3: str) -> None:
    with pytest.raises(fullbore.UsageError, match="no option region"):
        load("https://127.0.0.1:1/a.csv", server, None, store={"region": "here"})
    with pytest.raises(fullbore.UsageError, match="holds credentials"):
        load("s3://key:secret@data/a.csv", server, s3)


@pytest.mark.parametrize("moment", ["start", "middle"])
def test_an_object_that_changes_is_refused(moment: str, s3: str, server: Server) -> None:
    text = rows_of(200_000, seed=3)
    other = text.replace("plain", "PLAIN")
    assert len(other) == len(text)
    put(f"{s3}/data/changing.csv", text.encode())
    changed = threading.Event()

    with Proxy(s3) as proxy:
        ranges = 0

        def change(method: str, path: str, asked: str) -> None:
            nonlocal ranges
            # The plan counts quotes in all of it, then pieces are read.
            ranges += method == "GET" and length_of(asked) > 300_000
            if ranges > (0 if moment == "start" else 10) and not changed.is_set():
                changed.set()
                put(f"{s3}/data/changing.csv", other.encode())

        proxy.before = change
        with pytest.raises(fullbore.SourceError, match="changed during the load") as raised:
            load("s3://data/changing.csv", server, proxy.url, piece_size="500kB")
    assert changed.is_set()
    assert "s3://data/changing.csv" in str(raised.value)
    rows = int(server.sql("SELECT count(*) FROM t")[0][0])
    assert rows == 0 if moment == "start" else rows < 200_000


def test_an_object_that_changed_is_refused_when_a_run_is_resumed(s3: str, server: Server) -> None:
    text = "".join(f"{n},{n},x\n" for n in range(100_000))
    put(f"{s3}/data/resumed.csv", text.encode())
    with Proxy(s3) as proxy:
        proxy.before = lambda method, path, asked: time.sleep(0.1)
        url = proxy.url

        def stopped(progress: fullbore.Progress) -> None:
            if progress.rows > 0:
                raise KeyboardInterrupt

        with pytest.raises(BaseException) as raised:
            load("s3://data/resumed.csv", server, url, piece_size="100kB", on_progress=stopped)
        run = getattr(raised.value, "run_id", None) or fullbore.runs()[0].run_id
        put(f"{s3}/data/resumed.csv", text.replace("x", "y").encode())
        with pytest.raises(fullbore.LoadError, match="ETag differs"):
            fullbore.resume(run)
        put(f"{s3}/data/resumed.csv", text.encode())
        assert fullbore.resume(run).rows == 100_000
    assert server.sql("SELECT count(*), count(DISTINCT n) FROM t") == [["100000", "100000"]]


def test_faults_on_the_way_lose_and_double_nothing(s3: str, server: Server) -> None:
    text = rows_of(300_000, seed=4)
    known = expected(server, text)
    put(f"{s3}/data/faulty/rows.csv", text.encode())
    for number, part in enumerate(parts(text, 8)):
        put(f"{s3}/data/faulty-packed/{number}.gz", gzip.compress(part.encode(), 1))
    wanted = 200 if ALL else 25
    done, seed = 0, 0
    while done < wanted:
        seed += 1
        with Proxy(s3, Faults(share=0.4, most=wanted - done, seed=seed)) as proxy:
            for source in ["s3://data/faulty/rows.csv", "s3://data/faulty-packed/"]:
                load(source, server, proxy.url, piece_size="1MB")
                assert loaded(server, "t") == known, (seed, proxy.faults.done)
            done += sum(proxy.faults.done.values())
    assert done >= wanted


def test_web_servers_are_read_in_ranges(server: Server, tmp_path: Path) -> None:
    text = rows_of(30_000, seed=5)
    known = expected(server, text)
    files = {"/a b/rows.csv": text.encode(), "/rows.gz": gzip.compress(text.encode()), "/e": b""}
    files["/a%20b/rows.csv"] = files["/a b/rows.csv"]
    for etags in [True, False]:
        with Web(files, etags=etags) as web:
            for path in ["/a%20b/rows.csv", "/rows.gz"]:
                load(web.url + path, server, piece_size="200kB")
                assert loaded(server, "t") == known, path
            assert load(web.url + "/e", server).rows == 0
    refused = pytest.raises(fullbore.LoadError, match="can't be read in ranges")
    with Web(files, ranges=False) as web, refused:
        load(web.url + "/rows.gz", server)


def test_certificates_are_checked(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    command = [str(fullbore.find_command()), "load", "--to", "null:", "--header", "none"]
    with Web({"/rows.csv": b"1,2\n3,4\n"}, certificate=certificate) as web:
        for trusted in [True, False]:
            environment = {**os.environ, "FULLBORE_HOME": str(tmp_path / "state")}
            if trusted:
                environment["SSL_CERT_FILE"] = str(certificate)
            ended = subprocess.run(
                [*command, f"{web.url}/rows.csv"],
                capture_output=True,
                encoding="utf-8",
                env=environment,
            )
            assert (ended.returncode == 0) == trusted, ended.stderr
    assert "certificate" in ended.stderr


def test_signatures_and_passwords_of_urls_stay_in_the_process(
    server: Server, tmp_path: Path
) -> None:
    text = "".join(f"{n},{n},x\n" for n in range(1000))
    with Web({"/rows.csv": text.encode()}) as web:
        web.query = "X-Amz-Signature=5ecret&b=%2F"
        web.authorization = "Basic dGVzdDpwQDU1cGhyYXNl"
        place = web.url.removeprefix("http://")
        url = f"http://test:p%4055phrase@{place}/rows.csv?{web.query}"
        assert load(url, server).rows == 1000
    kept = "".join(
        path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()
    )
    assert f"http://{place}/rows.csv" in kept
    for secret in ["5ecret", "55phrase", "dGVzdDpw"]:
        assert secret not in kept
    said = server.sql("SELECT string_agg(r::text, '') FROM fullbore_ledger.runs AS r")[0][0]
    assert "5ecret" not in said


def test_a_server_that_sends_us_on_is_not_told_of(server: Server) -> None:
    text = "".join(f"{n},{n},x\n" for n in range(1000))
    with Web({"/rows.csv": text.encode()}) as there, Web({}) as web:
        web.elsewhere = there.url
        assert load(f"{web.url}/rows.csv?token=5ecret", server).rows == 1000
        assert there.referers and set(there.referers) == {None}


def test_what_may_change_unnoticed_is_refused(server: Server) -> None:
    with Web({"/rows.csv": b"1,2,x\n"}, etags=False) as web:
        web.times = False
        with pytest.raises(fullbore.LoadError, match="no ETag and no modification time"):
            load(f"{web.url}/rows.csv", server)
        with pytest.raises(fullbore.LoadError, match="%2F"):
            load(f"{web.url}/folder%2Frows.csv", server)


def test_objects_that_were_loaded_are_known(s3: str, server: Server) -> None:
    put(f"{s3}/data/days/1.csv", b"1,1,x\n")
    load("s3://data/days/", server, s3)
    options: dict[str, Any] = {"format": "csv", "header": "none", "store": {"endpoint": s3}}

    def again(source: str, **more: Any) -> fullbore.LoadResult:
        return fullbore.load(source, table="t", to=server.url, **{**options, **more})

    with pytest.raises(fullbore.UsageError, match="already loaded the contents"):
        again("s3://data/days/1.csv")
    put(f"{s3}/data/days/2.csv", b"2,2,y\n")
    assert again("s3://data/days/", resume=True).rows == 1
    assert server.sql("SELECT n FROM t ORDER BY n") == [["1"], ["2"]]
    # Another object in its place is another.
    put(f"{s3}/data/days/1.csv", b"3,3,z\n")
    assert again("s3://data/days/1.csv").rows == 1


@NEEDS_AZURITE
def test_azure_is_read_and_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = rows_of(30_000, seed=6)
    known = expected(server, text)
    source = tmp_path / "rows.csv"
    source.write_text(text)
    with azurite(tmp_path) as url:
        account = "devstoreaccount1"
        # The well-known key of the emulator: no secret.
        key = (
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq"
            "/K1SZFPTOtr/KBHBeksoGMGw=="
        )
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", account)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
        endpoint = f"{url}/{account}"
        make_container(endpoint, account, key, "data")
        options = {"format": "csv", "header": "none", "columns": ["n", "v", "t"]}
        types = {"types": ["n=bigint", "v=bigint", "t=text"], "store": {"endpoint": endpoint}}
        fullbore.load(source, to="parquet:az://data/out", **options, **types)
        load("az://data/out/*.parquet", server, endpoint, format="parquet")
        assert loaded(server, "t") == known
        with pytest.raises(fullbore.LoadError, match="does not exist"):
            load("az://data/none.csv", server, endpoint)


def make_container(endpoint: str, account: str, key: str, name: str) -> None:
    """Makes a container, by a request with a shared key."""
    import base64
    import hashlib
    import hmac
    import urllib.request
    from email.utils import formatdate

    date = formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
    canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    path = f"/{account}/{account}/{name}\nrestype:container"
    signed = "PUT\n" + "\n" * 11 + canonical + path
    digest = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(
        f"{endpoint}/{name}?restype=container", method="PUT", headers=headers
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


def test_the_command_says_the_same(s3: str, tmp_path: Path) -> None:
    put(f"{s3}/data/said.csv", b"n,v\n1,2\n")
    command = [str(fullbore.find_command()), "load", "s3://data/said.csv", "--to", "null:"]
    ended = subprocess.run(
        [*command, "--store", f"endpoint={s3}", "--json"], capture_output=True, encoding="utf-8"
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["rows"] == 1
    ended = subprocess.run([*command, "--store", "secret=x"], capture_output=True, encoding="utf-8")
    assert ended.returncode == 2
    assert "unknown key" in ended.stderr
