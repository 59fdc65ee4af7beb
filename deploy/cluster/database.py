"""Three PostgreSQL that Patroni keeps replicated, and etcd, where they agree on who leads: all on this machine's loopback."""

import contextlib
import json
import os
import pathlib
import secrets
import shutil
import signal
import string
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import processes
import services

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
USER = "latchkey"
PASSWORD = "a password with a space, a ' and a %"
# Of PostgreSQL's own roles, for this run: whoever else is on the machine does not know it.
INNER_PASSWORD = secrets.token_urlsafe(16)


def fill(template, target, **words):
    """Writes a template of this folder with its `$words` filled in."""
    text = string.Template((HERE / template).read_text()).substitute({key: str(word) for key, word in words.items()})
    target.write_text(text)
    target.chmod(0o600)
    processes.give(target)


class Node:
    """One PostgreSQL and the Patroni that minds it."""

    def __init__(self, cluster, number):
        self.cluster = cluster
        self.name = f"pg{number}"
        self.folder = cluster.new_folder(self.name)
        self.port, self.rest_port = services.free_port(), services.free_port()
        self.config = self.folder / "patroni.yml"
        self.patroni = None

    def start(self):
        fill(
            "patroni.yml", self.config, name=self.name, folder=self.folder, port=self.port, rest_port=self.rest_port,
            etcd=self.cluster.etcd_hosts, tools=self.cluster.tools, password=INNER_PASSWORD, shared_buffers="32MB",
        )  # fmt: skip
        self.patroni = processes.Process(
            f"Patroni of {self.name}", ["/usr/bin/python3", "-m", "patroni", self.config], self.cluster.logs / f"{self.name}.log",
            is_other_user=True, folder=self.folder, environment={"PYTHONPATH": str(self.cluster.python)},
        )  # fmt: skip

    def said(self, path="patroni"):
        """What Patroni's own page says; empty while it says nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest_port}/{path}", timeout=2) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with contextlib.suppress(ValueError):
                return json.load(error)
        except (OSError, ValueError):
            pass
        return {}

    def postmaster(self):
        """The id of PostgreSQL's first process; nil when it does not run. Only one whose data this is: ids are used again."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            if os.readlink(f"/proc/{pid}/cwd") == str(self.folder / "data"):
                return pid
        return None

    def kill(self):
        """All processes of PostgreSQL, at once; Patroni lives and sees it."""
        pid = self.postmaster()
        assert pid is not None, f"{self.name} does not run"
        processes.kill(processes.with_children(pid))

    def send(self, what, with_patroni):
        """A signal to all that runs, at once."""
        first = [pid for pid in (self.patroni.pid if with_patroni else None, self.postmaster()) if pid is not None]
        for pid in [*first, *(descendant for pid in first for descendant in processes.with_children(pid)[1:])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)

    @contextlib.contextmanager
    def standing_still(self, with_patroni=True, patroni_later=0):
        """As a machine that gets no processor for a while: what is connected stays so, and nothing is answered. Patroni may go on
        so many seconds later than PostgreSQL: where it cannot reach etcd at once, it leads on for up to retry_timeout."""
        # Twice: what stands still makes no more processes.
        for _ in range(2):
            self.send(signal.SIGSTOP, with_patroni)
        try:
            yield
        finally:
            if patroni_later:
                self.send(signal.SIGCONT, with_patroni=False)
                time.sleep(patroni_later)
            self.send(signal.SIGCONT, with_patroni)

    def url(self, database="latchkey"):
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def has_database(self, database="latchkey"):
        with contextlib.suppress(processes.StartError):
            return self.cluster.psql(self.url(database), "SELECT 1") == "1"

    def stop(self):
        """Patroni first: it would start PostgreSQL again. With it goes what it runs to make a database or to copy one."""
        if self.patroni is not None:
            processes.kill(processes.with_children(self.patroni.pid))
            self.patroni.popen.wait()
        if pid := self.postmaster():
            processes.kill(processes.with_children(pid))


class Etcd:
    """One member."""

    def __init__(self, cluster, number):
        self.name = f"etcd{number}"
        self.cluster = cluster
        self.folder = cluster.new_folder(self.name)
        self.client_port, self.peer_port = services.free_port(), services.free_port()
        self.process = None

    def start(self, members):
        config = self.folder / "etcd.yml"
        ports = {"client_port": self.client_port, "peer_port": self.peer_port}
        fill("etcd.yml", config, name=self.name, folder=self.folder, members=members, **ports)
        self.process = processes.Process(
            self.name, ["etcd", "--config-file", config], self.cluster.logs / f"{self.name}.log",
            is_other_user=True, folder=self.folder,
        )  # fmt: skip

    @contextlib.contextmanager
    def standing_still(self):
        self.process.popen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.popen.send_signal(signal.SIGCONT)

    def is_healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.client_port}/health", timeout=2) as answer:
                return json.load(answer).get("health") == "true"
        except (OSError, ValueError):
            return False


class DatabaseCluster:
    """Three nodes over one member of etcd, or over three.

    One is enough here: all share this machine, so that three would only flush its disk three times as often. On machines of
    their own there are three, so that one may fail.
    """

    def __init__(self, logs, members=1, nodes=3):
        self.logs = pathlib.Path(logs)
        self.logs.mkdir(parents=True, exist_ok=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lkcl-"))
        self.folder.chmod(0o755)
        self.tools = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        self.python = self.copy_python()
        self.etcd = [Etcd(self, number) for number in range(1, members + 1)]
        self.etcd_hosts = ",".join(f"127.0.0.1:{member.client_port}" for member in self.etcd)
        self.nodes = [Node(self, number) for number in range(1, nodes + 1)]

    def copy_python(self):
        """Patroni and what it needs, where the other user may read it: a clone of ours may lie where only its owner may."""
        venv = pathlib.Path(os.environ.get("CLUSTER_VENV", ROOT / ".venv-cluster"))
        found = next(iter(venv.glob("lib/python3*/site-packages")), None)
        if found is None or not (found / "patroni").exists():
            raise processes.StartError(f"Patroni is not in {venv}: VENV=.venv-cluster PYTHON=/usr/bin/python3 "
                                       "Tests/Tools/venv deploy/cluster/requirements.txt")  # fmt: skip
        skipped = shutil.ignore_patterns("pip", "pip-*", "setuptools", "setuptools-*", "__pycache__")
        return pathlib.Path(shutil.copytree(found, self.folder / "python", ignore=skipped))

    def new_folder(self, name):
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        processes.give(folder)
        return folder

    # Its life.

    def start(self):
        """Returns once one node leads and both others follow it, one of them synchronously, and the database is there."""
        try:
            members = ",".join(f"{member.name}=http://127.0.0.1:{member.peer_port}" for member in self.etcd)
            for member in self.etcd:
                member.start(members)
            running = [member.process for member in self.etcd]
            processes.wait_until(lambda: all(member.is_healthy() for member in self.etcd), "etcd", running)
            for node in self.nodes:
                node.start()
            running += [node.patroni for node in self.nodes]
            processes.wait_until(self.is_whole, "a leader with two followers", running, seconds=120)
            self.make_database()
        except BaseException:
            self.stop()
            raise

    def make_database(self):
        """As the guide says: a role that owns one database."""
        quoted = PASSWORD.replace("'", "''")
        leader = f"postgresql://postgres@127.0.0.1:{self.leader().port}/postgres"
        for statement in (
            f"CREATE ROLE {USER} LOGIN PASSWORD '{quoted}'",
            f"CREATE DATABASE latchkey OWNER {USER} ENCODING 'UTF8' TEMPLATE template0",
        ):
            self.psql(leader, statement, password=INNER_PASSWORD)
        # A host where the database is not yet replayed would end the search for the one that takes writes.
        processes.wait_until(lambda: all(node.has_database() for node in self.nodes), "the database on all nodes")

    def stop(self):
        """Everything that was started here, and its folders: nothing of them is wanted any more."""
        for node in self.nodes:
            node.stop()
        for member in self.etcd:
            if member.process is not None:
                member.process.stop()
        processes.wait_until(self.is_removed, f"the end of {self.folder}", seconds=30)

    def is_removed(self):
        """What was killed may write for a moment longer."""
        shutil.rmtree(self.folder, ignore_errors=True)
        return not self.folder.exists()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    # What it is like.

    def members(self):
        """By name, what the nodes know of each other: role, state, timeline and lag."""
        for node in self.nodes:
            if found := node.said("cluster").get("members"):
                return {member["name"]: member for member in found}
        return {}

    def leader(self):
        """The node that takes writes by its own word; nil while there is none."""
        for node in self.nodes:
            said = node.said()
            if said.get("role") in ("primary", "master") and said.get("state") == "running" and node.postmaster():
                return node
        return None

    def is_whole(self):
        """One leads, all others stream from it on its timeline, and one of them is synchronous. A node that
        is still unwound while the leader dies from which it is has to be made anew."""
        leader = self.leader()
        if leader is None:
            return False
        members = self.members()
        streams = [stream.get("state") for stream in leader.said().get("replication", [])]
        timelines = {member.get("timeline") for member in members.values()}
        roles = [member["role"] for member in members.values()]
        is_running = all(member["state"] in ("running", "streaming") for member in members.values())
        is_complete = len(members) == len(self.nodes) and streams == ["streaming"] * (len(self.nodes) - 1)
        return is_complete and is_running and len(timelines) == 1 and "sync_standby" in roles

    def wait_until_whole(self, seconds=120):
        processes.wait_until(self.is_whole, "a leader with two followers", [node.patroni for node in self.nodes], seconds)

    def kill_leader(self):
        """Its PostgreSQL dies; returns the node and when that was, by the clock of time.monotonic()."""
        node = self.leader()
        moment = time.monotonic()
        node.kill()
        return node, moment

    def switch_over(self):
        """As an operator asks for it; returns the node that led and when it was asked, once Patroni says that it is done."""
        node = self.leader()
        moment = time.monotonic()
        request = urllib.request.Request(
            f"http://127.0.0.1:{node.rest_port}/switchover", json.dumps({"leader": node.name}).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200, answer.read()
        return node, moment

    def wait_for_another(self, node, seconds=60):
        """Another one that leads."""

        def another():
            leader = self.leader()
            return leader if leader is not node else None

        return processes.wait_until(another, f"another leader than {node.name}", seconds=seconds)

    def take_away(self):
        """From everybody: all nodes die, and their Patronis stand still."""
        for node in self.nodes:
            node.patroni.popen.send_signal(signal.SIGSTOP)
        for node in self.nodes:
            node.kill()

    def bring_back(self):
        """Returns once a commit is acknowledged again."""
        for node in self.nodes:
            node.patroni.popen.send_signal(signal.SIGCONT)
        processes.wait_until(self.commits, "a commit", [node.patroni for node in self.nodes], seconds=180)

    def commits(self):
        with contextlib.suppress(processes.StartError):
            self.query("CREATE TABLE IF NOT EXISTS public.probe (n int); INSERT INTO public.probe VALUES (1)")
            return True
        return False

    # Asking it.

    def psql(self, url, sql, password=PASSWORD):
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PGPASSWORD": password, "PGCONNECT_TIMEOUT": "5"}
        command = [str(self.tools / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", url, "-c", sql]
        finished = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
        if finished.returncode != 0:
            raise processes.StartError(f"psql: {finished.stderr}")
        return finished.stdout.strip()

    def query(self, sql):
        return self.psql(self.url("test"), sql)

    def url(self, service):
        """As storage.url takes it: every host there is, and the one that takes writes is looked for."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://{USER}@{hosts}/latchkey?target_session_attrs=read-write&application_name=latchkey-{service}"

    def connections(self):
        """By service: how many of the pools' connections stand."""
        rows = self.query("SELECT application_name, count(*) FROM pg_stat_activity WHERE application_name LIKE 'latchkey%' GROUP BY 1")
        return {name: int(count) for name, count in (row.split("|") for row in rows.splitlines())}

    def most_connections(self, seconds):
        """By service: the most of them that stood at a time in the next seconds."""
        most, end = {}, time.monotonic() + seconds
        while time.monotonic() < end:
            # A standby that is started again while it is asked who it is ends the question.
            with contextlib.suppress(processes.StartError):
                for name, count in self.connections().items():
                    most[name] = max(count, most.get(name, 0))
            time.sleep(0.05)
        return {name: count for name, count in most.items() if name != "latchkey-test"}
