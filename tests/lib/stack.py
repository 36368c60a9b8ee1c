"""The local stack: SeaweedFS (S3 and an Iceberg REST catalog) and a PostgreSQL cluster with coldfront loaded.

`make up` and the tests both start it from here, so there is one recipe. Every stack lives in a directory of its
own, listens on loopback only, and remembers its ports and keys, so that it comes back at the same addresses.

    stack.py up|down|status|psql|env|reset      the stack of `make up`, in .local/stack
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import random
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Callable

import psutil
import psycopg

REPO = Path(__file__).resolve().parents[2]
LOCAL = (REPO / ".local").resolve()  # it may be a link to where PostgreSQL's user can go
PG_HOME = Path(os.environ.get("COLDFRONT_PG_HOME", LOCAL / "pg18"))
SERVICE_USER = "coldfront"
BUCKET = "lake"


class StackError(RuntimeError):
    """Something did not start or stop; the message carries the end of its log."""


def wait_until(what: str, condition: Callable[[], object], timeout_s: float = 60.0, tail: Path | None = None) -> object:
    """Poll `condition` until it is truthy; an exception counts as "not yet" and is shown if time runs out."""
    deadline = time.monotonic() + timeout_s
    pause, last = 0.01, None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except StackError:
            raise
        except Exception as error:  # a server that is still starting answers in many ways
            last = error
        if time.monotonic() > deadline:
            raise StackError(f"gave up after {timeout_s:g} s waiting for {what}; last state: {last!r}{log_tail(tail)}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def log_tail(path: Path | None, lines: int = 25) -> str:
    if path is None or not path.exists():
        return ""
    text = path.read_text(errors="replace").splitlines()[-lines:]
    return f"\n--- end of {path}\n" + "\n".join(text)


def free_port(taken: set[int] = set()) -> int:
    """A port below the ephemeral range, so that no outgoing connection takes it between choice and use."""
    for _ in range(1000):
        port = random.randint(20000, 31999)
        if port in taken:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise StackError("no free port between 20000 and 31999")


def free_ports(names: list[str]) -> dict[str, int]:
    ports: dict[str, int] = {}
    for name in names:
        ports[name] = free_port(set(ports.values()))
    return ports


def service_account() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root; then it runs as this user (created by `make deps`)."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(SERVICE_USER)
    except KeyError:
        raise StackError(f"running as root needs the system user {SERVICE_USER}: run `make deps`") from None


class Daemon:
    """A process that outlives its parent, known by pid and start time."""

    def __init__(self, pidfile: Path):
        self.pidfile = pidfile
        self.popen: subprocess.Popen | None = None

    def spawn(self, argv: list, log: Path, **kwargs) -> None:
        with open(log, "ab") as out:
            self.popen = subprocess.Popen(
                [str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, **kwargs
            )
        started = psutil.Process(self.popen.pid).create_time()
        self.pidfile.write_text(json.dumps({"pid": self.popen.pid, "started": started}))

    def process(self) -> psutil.Process | None:
        if self.popen is not None:
            self.popen.poll()  # reap it, should it be our own zombie
        try:
            known = json.loads(self.pidfile.read_text())
            process = psutil.Process(known["pid"])
            if abs(process.create_time() - known["started"]) < 1 and process.status() != psutil.STATUS_ZOMBIE:
                return process
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            pass
        return None

    def signal(self, number: int, timeout_s: float = 60.0) -> None:
        """Send a signal to the process and wait until it has ended."""
        process = self.process()
        if process is None:
            return
        process.send_signal(number)
        wait_until(f"pid {process.pid} to end", lambda: self.process() is None, timeout_s)
        self.pidfile.unlink(missing_ok=True)


class SeaweedFS:
    """`weed server`: S3 on one port, Iceberg REST catalog on another, one table bucket."""

    PORTS = ["master", "master_grpc", "volume", "volume_grpc", "filer", "filer_grpc", "s3", "s3_grpc", "iceberg"]

    def __init__(self, directory: Path, run_dir: Path, state: dict):
        self.dir, self.run_dir = directory, run_dir
        state.setdefault("weed_ports", free_ports(self.PORTS))
        state.setdefault("access_key", "CF" + secrets.token_hex(9).upper())
        state.setdefault("secret_key", secrets.token_urlsafe(30))
        self.ports: dict[str, int] = state["weed_ports"]
        self.access_key: str = state["access_key"]
        self.secret_key: str = state["secret_key"]
        self.region = "us-east-1"
        self.log = directory / "weed.log"
        self.daemon = Daemon(directory / "weed.pid")

    @property
    def s3_endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3']}"

    @property
    def catalog_uri(self) -> str:
        return f"http://127.0.0.1:{self.ports['iceberg']}"

    @property
    def token_url(self) -> str:
        return f"{self.catalog_uri}/v1/oauth/tokens"

    @property
    def warehouse(self) -> str:
        return BUCKET

    def identities(self) -> dict:
        """The owner, and a second key pair that may only read: for tests of refused writes."""
        return {
            "identities": [
                {
                    "name": "admin",
                    "credentials": [{"accessKey": self.access_key, "secretKey": self.secret_key}],
                    "actions": ["Admin", "Read", "Write", "List", "Tagging"],
                },
                {
                    "name": "reader",
                    "credentials": [{"accessKey": self.access_key + "RO", "secretKey": self.secret_key}],
                    "actions": ["Read", "List"],
                },
            ]
        }

    def start(self) -> None:
        if self.daemon.process() is not None:
            return
        data = self.dir / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = self.dir / "s3.json"
        config.touch(mode=0o600)
        config.write_text(json.dumps(self.identities()))
        port = self.ports
        self.daemon.spawn(
            [
                LOCAL / "bin/weed", "-logtostderr=true", "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                f"-master.port={port['master']}", f"-master.port.grpc={port['master_grpc']}",
                "-master.telemetry=false", "-master.volumeSizeLimitMB=1024", "-master.peers=none",
                f"-volume.port={port['volume']}", f"-volume.port.grpc={port['volume_grpc']}",
                "-volume.max=200", "-volume.preStopSeconds=0",
                f"-filer.port={port['filer']}", f"-filer.port.grpc={port['filer_grpc']}",
                f"-filer.localSocket={self.run_dir / 'filer.sock'}",
                "-s3", f"-s3.port={port['s3']}", f"-s3.port.grpc={port['s3_grpc']}", f"-s3.port.iceberg={port['iceberg']}",
                "-s3.port.lance=0", "-s3.iam=false", f"-s3.localSocket={self.run_dir / 's3.sock'}", f"-s3.config={config}",
            ],
            self.log,
            cwd=self.dir,
            env={**os.environ, "HOME": str(self.dir)},
        )  # fmt: skip
        self.wait_ready()

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        def alive() -> bool:
            if self.daemon.process() is None:
                raise StackError(f"weed ended while starting{log_tail(self.log)}")
            return True

        def answers(url: str) -> bool:
            alive()
            try:
                urllib.request.urlopen(url, timeout=2).close()
            except urllib.error.HTTPError as error:
                return error.code in (400, 401, 403)  # it is there and asks who we are
            return True

        def volumes() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['master']}/dir/status", timeout=2) as answer:
                return alive() and json.load(answer)["Topology"]["Max"] > 0

        wait_until("SeaweedFS S3", lambda: answers(self.s3_endpoint), timeout_s, self.log)
        wait_until("SeaweedFS catalog", lambda: answers(f"{self.catalog_uri}/v1/config"), timeout_s, self.log)
        wait_until("SeaweedFS volumes", volumes, timeout_s, self.log)
        wait_until("the table bucket", self.ensure_bucket, timeout_s, self.log)

    def shell(self, *commands: str) -> str:
        address = f"127.0.0.1:{self.ports['master']}.{self.ports['master_grpc']}"
        done = subprocess.run(
            [str(LOCAL / "bin/weed"), "shell", f"-master={address}"],
            input="\n".join(commands) + "\nexit\n", capture_output=True, text=True, timeout=60, cwd=self.dir,
            env={**os.environ, "HOME": str(self.dir)},
        )  # fmt: skip
        return done.stdout + done.stderr

    def ensure_bucket(self) -> bool:
        if BUCKET in self.shell("s3tables.bucket -list -account admin"):
            return True
        self.shell(f"s3tables.bucket -create -name {BUCKET} -account admin")
        return False

    def stop(self) -> None:
        """Its own shutdown waits 15 s for streams that never end; what it has acknowledged is in its files already."""
        try:
            self.daemon.signal(signal.SIGTERM, 2)
        except StackError:
            pass
        self.kill()

    def kill(self) -> None:
        self.daemon.signal(signal.SIGKILL)
        for port in self.ports.values():  # its gRPC sockets have fixed names
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink(missing_ok=True)

    def pause(self) -> None:
        """Stop answering without closing connections: an object store and a catalog that hang."""
        process = self.daemon.process()
        process and process.suspend()

    def resume(self) -> None:
        process = self.daemon.process()
        process and process.resume()


class Postgres:
    """A PostgreSQL cluster with coldfront preloaded if it is installed."""

    def __init__(self, directory: Path, run_dir: Path, state: dict, settings: dict[str, str]):
        self.dir, self.run_dir = directory, run_dir
        self.data = directory / "data"
        state.setdefault("pg_port", free_port())
        self.port: int = state["pg_port"]
        self.user, self.dbname = "coldfront", "coldfront"
        self.settings = settings
        self.log = directory / "postgres.log"
        self.daemon = Daemon(directory / "postgres.pid")
        self.account = service_account()

    @staticmethod
    def extension_installed() -> bool:
        return (PG_HOME / "lib/coldfront.so").exists()

    def run_as(self) -> dict:
        """Arguments for subprocess: the unprivileged user when we are root, and PostgreSQL's own libraries.

        The libraries have no run path, so without this dblink and friends pick up the system's libpq."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("PG") and k != "RUST_BACKTRACE"}
        env.update(LD_LIBRARY_PATH=str(PG_HOME / "lib"), LC_ALL="C.UTF-8", TZ="UTC")
        if self.account is None:
            return {"env": env}
        env.update(HOME=str(self.dir), USER=SERVICE_USER, LOGNAME=SERVICE_USER)
        return {"env": env, "user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}

    def tool(self, name: str, *argv: str, check: bool = True, **kwargs) -> subprocess.CompletedProcess:
        """Run one of PostgreSQL's programs as the server's user."""
        done = subprocess.run(
            [str(PG_HOME / "bin" / name), *argv], capture_output=True, text=True, cwd="/", **self.run_as(), **kwargs
        )
        if check and done.returncode != 0:
            raise StackError(f"{name} {' '.join(argv)} failed ({done.returncode}): {done.stdout}{done.stderr}")
        return done

    def init(self) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        self.dir.mkdir(parents=True, exist_ok=True)
        if self.account is not None:
            os.chown(self.dir, self.account.pw_uid, self.account.pw_gid)
        shutil.rmtree(self.data, ignore_errors=True)
        self.tool(
            "initdb", "-D", str(self.data), "-U", self.user, "-A", "trust", "-E", "UTF8", "--no-sync",
            "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C.UTF-8",
        )  # fmt: skip
        with open(self.data / "postgresql.conf", "a") as conf:
            conf.write("\ninclude_if_exists = 'stack.conf'\n")

    def configure(self) -> None:
        """Written at every start, so that a cluster made before the extension was installed picks it up."""
        values = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.run_dir),
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_line_prefix": "%m [%p] %q%u@%d/%a ",
            "logging_collector": "off",
            "max_connections": "100",
            "shared_buffers": "256MB",
            "wal_level": "logical",
            "max_wal_size": "4GB",
        }
        if self.extension_installed():
            values["shared_preload_libraries"] = "coldfront"
        values.update({k: v for k, v in self.settings.items() if self.extension_installed() or not k.startswith("coldfront.")})
        text = "".join(f"{k} = '{v.replace(chr(39), chr(39) * 2)}'\n" for k, v in values.items())
        (self.data / "stack.conf").write_text(text)

    def outdated(self) -> bool:
        """It runs with a library that has since been replaced."""
        process, library = self.daemon.process(), PG_HOME / "lib/coldfront.so"
        return process is not None and library.exists() and library.stat().st_mtime > process.create_time()

    def start(self, timeout_s: float = 60.0) -> None:
        if self.daemon.process() is not None:
            return
        self.init()
        self.configure()
        self.daemon.spawn([PG_HOME / "bin/postgres", "-D", self.data], self.log, cwd="/", **self.run_as())
        self.wait_ready(timeout_s)

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        def ready() -> bool:
            if self.daemon.process() is None:
                raise StackError(f"PostgreSQL ended while starting{log_tail(self.log)}")
            self.connect(dbname="postgres").close()
            return True

        wait_until("PostgreSQL", ready, timeout_s, self.log)

    def ensure_database(self) -> None:
        with self.connect(dbname="postgres") as admin:
            if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self.dbname]).fetchone():
                admin.execute(f"CREATE DATABASE {self.dbname}")
                # A user's own schema comes first by default, and for user coldfront that is the extension's.
                admin.execute(f"ALTER DATABASE {self.dbname} SET search_path = public")

    def stop(self, how: int = signal.SIGINT) -> None:
        """Fast shutdown, immediate shutdown if it takes too long."""
        try:
            self.daemon.signal(how, 60)
        except StackError:
            self.daemon.signal(signal.SIGQUIT, 20)

    def kill(self) -> None:
        """kill -9 of the server and everything it started, as a power cut would."""
        process = self.daemon.process()
        if process is None:
            return
        family = [process, *process.children(recursive=True)]
        for member in family:
            try:
                member.kill()
            except psutil.NoSuchProcess:
                pass
        psutil.wait_procs(family[1:], timeout=20)
        wait_until("the killed server to end", lambda: self.daemon.process() is None)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def connect(self, **kwargs) -> psycopg.Connection:
        options = {
            "host": "127.0.0.1", "port": self.port, "user": self.user, "dbname": self.dbname,
            "autocommit": True, "connect_timeout": 10,
        }  # fmt: skip
        return psycopg.connect(**{**options, **kwargs})


class Stack:
    """SeaweedFS and PostgreSQL, joined: `with Stack(directory) as stack: stack.connect()`."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None):
        self.dir = Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.state_file = self.dir / "stack.json"
        self.state: dict = json.loads(self.state_file.read_text()) if self.state_file.exists() else {}
        self.keep = False
        self.run_dir = self._make_run_dir()
        self.weed = SeaweedFS(self.dir / "weed", self.run_dir, self.state)
        self.pg = Postgres(self.dir / "pg", self.run_dir, self.state, {**self.coldfront_settings(), **(settings or {})})
        self._remember()

    def _make_run_dir(self) -> Path:
        """Sockets go to a short path: their names may not exceed 107 bytes, whatever the clone's path."""
        name = hashlib.sha256(str(self.dir.resolve()).encode()).hexdigest()[:12]
        path = Path("/tmp") / f"coldfront-{os.geteuid()}-{name}"
        path.mkdir(exist_ok=True)
        if path.stat().st_uid not in {os.geteuid(), getattr(service_account(), "pw_uid", None)}:
            raise StackError(f"{path} belongs to somebody else")
        account = service_account()
        if account is not None:
            os.chown(path, account.pw_uid, account.pw_gid)
        return path

    def _remember(self) -> None:
        self.state_file.touch(mode=0o600)
        self.state_file.write_text(json.dumps(self.state, indent=1))

    def coldfront_settings(self) -> dict[str, str]:
        return {"coldfront.warehouse": self.weed.warehouse, "coldfront.lakekeeper_endpoint": self.weed.catalog_uri}

    def start(self) -> "Stack":
        self._make_run_dir()
        self.weed.start()
        self.pg.start()
        self.pg.ensure_database()
        self.install_extension()
        return self

    def install_extension(self) -> None:
        if not self.pg.extension_installed():
            return
        weed = self.weed
        with self.connect() as db:
            db.execute("CREATE EXTENSION IF NOT EXISTS coldfront")
            db.execute(
                "SELECT coldfront.set_storage_secret(%s, %s, %s, region => %s)",
                [weed.access_key, weed.secret_key, weed.s3_endpoint, weed.region],
            )
            db.execute("SELECT coldfront.set_catalog_secret(%s, %s, %s)", [weed.access_key, weed.secret_key, weed.token_url])

    def stop(self) -> None:
        self.pg.stop()
        self.weed.stop()
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def kill(self) -> None:
        self.pg.kill()
        self.weed.kill()

    def destroy(self) -> None:
        self.kill()
        shutil.rmtree(self.run_dir, ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def connect(self, **kwargs) -> psycopg.Connection:
        return self.pg.connect(**kwargs)

    def __enter__(self) -> "Stack":
        return self.start()

    def __exit__(self, kind, error, trace) -> None:
        """Keep the directory, with its logs, when the test failed."""
        if kind is None and not self.keep:
            self.destroy()
        else:
            self.kill()
            print(f"stack kept in {self.dir}", file=sys.stderr)

    def environment(self) -> dict[str, str]:
        weed = self.weed
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.pg.port),
            "PGUSER": self.pg.user,
            "PGDATABASE": self.pg.dbname,
            "PG_BIN": str(PG_HOME / "bin"),
            "PG_DATA": str(self.pg.data),
            "PG_LOG": str(self.pg.log),
            "S3_ENDPOINT": weed.s3_endpoint,
            "S3_ACCESS_KEY": weed.access_key,
            "S3_SECRET_KEY": weed.secret_key,
            "S3_REGION": weed.region,
            "CATALOG_URI": weed.catalog_uri,
            "CATALOG_TOKEN_URL": weed.token_url,
            "WAREHOUSE": weed.warehouse,
        }


def main_stack(**kwargs) -> Stack:
    """The stack of `make up`."""
    return Stack(LOCAL / "stack", **kwargs)


def write_env(stack: Stack) -> None:
    path = LOCAL / "env"
    path.touch(mode=0o600)
    path.write_text("".join(f"export {k}={shlex.quote(v)}\n" for k, v in stack.environment().items()))


def psql_line(stack: Stack) -> str:
    return f"{PG_HOME / 'bin/psql'} -h 127.0.0.1 -p {stack.pg.port} -U {stack.pg.user} {stack.pg.dbname}"


def main(argv: list[str]) -> int:
    command, rest = (argv or [""])[0], argv[1:]
    if command not in {"up", "down", "status", "psql", "env", "reset"}:
        print(__doc__, file=sys.stderr)
        return 2
    stack = main_stack()
    if command == "up":
        if stack.pg.outdated():
            print("a newer coldfront is installed: restarting PostgreSQL")
            stack.pg.stop()
        stack.start()
        write_env(stack)
        loaded = "with coldfront" if stack.pg.extension_installed() else "without coldfront, which is not installed yet"
        print(f"PostgreSQL 18 ({loaded}), SeaweedFS S3 {stack.weed.s3_endpoint}, catalog {stack.weed.catalog_uri}")
        print(f"addresses: . {LOCAL / 'env'}\nconnect:   {psql_line(stack)}")
    elif command == "down":
        stack.stop()
    elif command == "reset":
        stack.destroy()
    elif command == "status":
        states = {"PostgreSQL": stack.pg.daemon.process(), "SeaweedFS": stack.weed.daemon.process()}
        for name, process in states.items():
            print(f"{name}: " + (f"running, pid {process.pid}" if process else "stopped"))
        return 0 if all(states.values()) else 3
    elif command == "psql":
        os.execv(PG_HOME / "bin/psql", [*psql_line(stack).split(), *rest])
    elif command == "env":
        write_env(stack)
        print((LOCAL / "env").read_text(), end="")
    return 0


if __name__ == "__main__":
    os.umask(0o022)  # PostgreSQL's user has to pass through our directories
    try:
        sys.exit(main(sys.argv[1:]))
    except StackError as error:
        sys.exit(f"stack: {error}")
