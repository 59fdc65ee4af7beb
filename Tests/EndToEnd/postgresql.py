"""A PostgreSQL of the tests' own, of Debian's package, on a port of loopback and in a temporary folder."""

import base64
import contextlib
import hashlib
import hmac
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

import services

# Those that keep their rows there.
SERVICES = services.NAMES
USER = "latchkey"
PASSWORD = "a password with a space, a ' and a %"
INITDB = ("-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "-N")
LOCALE = "C.UTF-8"


def verifier():
    """What a server keeps of the password (RFC 5803), of a single round of hashing. With the usual 4,096 whoever connects
    spends most of that on them, and the tests connect some ten thousand times."""
    salt = b"some salt of ours"
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, 1)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    parts = (base64.b64encode(part).decode() for part in (salt, stored, hmac.digest(salted, b"Server Key", "sha256")))
    return "SCRAM-SHA-256$1:{}${}:{}".format(*parts)


TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / ".build" / "end-to-end" / "postgresql"


class PostgreSQL:
    """One server: started, killed and started again on the same port, with one database for the three services."""

    def __init__(self, environment=None, **settings):
        """`environment` is added to the server's."""
        self.environment = environment or {}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lkpg-", dir=os.environ.get("TMPDIR", "/tmp")))
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        self.port = services.free_port()
        self.tools = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        self.process = None
        # PostgreSQL refuses to run as root.
        self.account = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        self.own(self.folder)
        # As it was made for the first test, which takes as long as starting it several times: by this release with these
        # options, for who runs it here.
        owner = self.account.pw_uid if self.account else os.getuid()
        made_so = f"{self.run('initdb', '--version')} {INITDB} {LOCALE} {verifier()} {owner}"
        made = TEMPLATES / hashlib.sha256(made_so.encode()).hexdigest()[:16]
        if not made.exists():
            self.make(made)
        subprocess.run(["cp", "-a", made, self.data], check=True)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "max_connections": 100,
            "shared_buffers": "32MB",
        } | settings
        with open(self.data / "postgresql.conf", "a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self.start()
        self.query("CREATE DATABASE latchkey", database="postgres")

    def own(self, path):
        if self.account:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)

    def make(self, template):
        """A server's data with nothing of anybody's in it, to copy."""
        password, data = self.folder / "password", self.folder / "made"
        password.write_text(verifier())
        self.own(password)
        self.run("initdb", "-D", data, "--pwfile", password, *INITDB, before=self.as_its_user())
        TEMPLATES.mkdir(parents=True, exist_ok=True)
        # Whole or not at all, and once where several tests begin at the same time.
        with tempfile.TemporaryDirectory(dir=TEMPLATES) as folder:
            whole = pathlib.Path(folder) / "data"
            subprocess.run(["cp", "-a", data, whole], check=True)
            subprocess.run(["sync", "-f", whole], check=True)
            try:
                whole.rename(template)
            except OSError:
                # Another test was first.
                assert template.exists()

    def as_its_user(self):
        """By a program of its own: what Python does between fork and exec is more than gRPC's threads bear."""
        if self.account is None:
            return []
        return ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups", "--"]

    def run(self, tool, *arguments, before=()):
        command = [*before, str(self.tools / tool), *map(str, arguments)]
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": LOCALE, "PGPASSWORD": PASSWORD}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=self.folder).stdout

    def start(self):
        assert self.process is None
        end = time.monotonic() + 30
        self.launch()
        while True:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.query("SELECT 1", database="postgres")
                return
            log = (self.folder / "log").read_text()
            assert time.monotonic() < end, log
            if self.process.poll() is not None:
                # A child of one that was killed, begun at that very moment, has yet to notice.
                assert any("shared memory block" in line for line in log.splitlines()[-6:]), log
                self.launch()
            time.sleep(0.02)

    def launch(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                # Ends with the tests, however they end: asked for last, because a change of user forgets it.
                [*self.as_its_user(), "setpriv", "--pdeathsig", "SIGQUIT", "--",
                 str(self.tools / "postgres"), "-D", str(self.data)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=os.environ | self.environment,
            )  # fmt: skip

    def kill(self):
        """All of its processes, at once."""
        for pid in [self.process.pid, *self.children()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def children(self):
        listed = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout
        return [int(pid) for pid in listed.split()]

    def query(self, sql, database="latchkey"):
        url = f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"
        return self.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", url, "-c", sql).strip()

    def connections(self):
        """By service: how many of the pools' connections stand."""
        rows = self.query("SELECT application_name, count(*) FROM pg_stat_activity WHERE application_name LIKE 'latchkey%' GROUP BY 1")
        return {name: int(count) for name, count in (row.split("|") for row in rows.splitlines())}

    def url(self, service):
        return f"postgresql://{USER}@127.0.0.1:{self.port}/latchkey?application_name=latchkey-{service}"

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(timeout=30)
            self.process = None
        shutil.rmtree(self.folder)


def serving(scope="function"):
    """A fixture: a server for that long."""
    # Benchmarks start servers where there is no pytest.
    import pytest

    @pytest.fixture(scope=scope)
    def server():
        server = PostgreSQL()
        yield server
        server.stop()

    return server


def make_secrets(binaries, directory):
    """The secrets that all instances share, in `directory`: a service over SQLite makes them at its first start."""
    scratch = services.Fleet(binaries, directory.parent / "scratch")
    scratch["identity"].start()
    scratch["identity"].stop()
    copy_secrets(scratch.data_directory, directory)


def copy_secrets(source, directory):
    directory.mkdir(mode=0o700)
    for name in ("service-token", "identity-secret"):
        shutil.copy2(source / name, directory / name)


def fleet(binaries, directory, server, arguments, instances=1, peers=True, secrets=None, tls=False):
    """The three services over one database, several instances of each with the same secrets in folders of their own: those
    of the data directory `secrets`, those that the server's last fleet had, or new ones. Without `peers` those of the QR
    service do not reach each other and hear from the database alone."""
    data = directory / "data"
    directory.mkdir(exist_ok=True)
    if secrets:
        copy_secrets(secrets, data)
        # Taken over at the first start.
        shutil.copytree(secrets / "signing-keys", data / "signing-keys")
    elif getattr(server, "secrets", None):
        copy_secrets(server.secrets, data)
    else:
        make_secrets(binaries, data)
    # What is stored is sealed with them: whoever comes later to the same server has the same.
    server.secrets = directory / "secrets"
    if not server.secrets.exists():
        copy_secrets(data, server.secrets)
    password = directory / "database-password"
    password.touch(mode=0o600)
    password.write_text(PASSWORD + "\n")
    arguments = dict(arguments)
    for name in SERVICES:
        place = ["--storage-url", server.url(name), "--storage-password-file", str(password)]
        arguments[name] = [*arguments.get(name, []), *place]
    fleet = services.Fleet(binaries, directory, arguments=arguments, instances=instances, tls=tls)
    # A code points at the installation, whichever instance issued it.
    base = f"http://127.0.0.1:{fleet.ports['qr'][0]}"
    fleet.arguments["qr"] = ["--verification-base", base, *fleet.arguments["qr"]]
    if not peers:
        fleet.arguments["qr"] += ["--instance-address", "127.0.0.1:9"]
    for number in range(2, instances + 1):
        shutil.copytree(data, directory / f"data-{number}")
        fleet.arguments[f"qr-{number}"] = ["--instance", str(number), *arguments.get(f"qr-{number}", [])]
    return fleet


def ask_each_other(fleet, number):
    """Before they start: the instances of that number ask one another, where all others ask the first."""
    peers = [(f"--{peer}-address", f"{fleet.host}:{fleet.ports[f'{peer}-{number}'][0]}") for peer in services.NAMES]
    for name in services.NAMES:
        own = fleet.arguments.get(f"{name}-{number}", [])
        fleet.arguments = fleet.arguments | {f"{name}-{number}": [*own, *(part for peer in peers for part in peer)]}
