"""The leader of the database cluster gone in other ways than by a crash of its PostgreSQL, under load: `make cluster-test`."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import bars
import database
import history
import people
import pytest
import services
from waiting import eventually

# The leader's lock in etcd lives for 20 seconds, and so long is a machine waited for that says nothing.
SILENT_BAR = 35
SWITCHOVER_BAR = 15
# By how many seconds Patroni, which takes its right away, goes on later than the PostgreSQL of a leader that stood still.
PATRONI_LATER = 3
# Longer than that lock lives.
ETCD_AWAY_SECONDS = 25
ETCD_BAR = 5
# Between two things that one person does, in seconds: what takes half a minute would leave too much to look at again.
PAUSE = 0.1
# How a command ends that cannot do it now, or does not know whether it was done.
UNAVAILABLE = 69


@contextlib.contextmanager
def load(place, seed, bar):
    """People who use a whole cluster, and still do when it is whole again; then what they were told is gone through, and the
    services are the same processes as before."""
    running = {name: service.process.pid for name, service in place.fleet.services.items()}
    place.database.wait_until_whole()
    with people.Crowd(place.front, seed, PAUSE) as crowd:
        crowd.wait_for_writes(10)
        yield crowd
        place.database.wait_until_whole()
        crowd.wait_for_writes(10)
    crowd.verify()
    found = crowd.history
    print(f"{len(found)} calls; errors {dict(found.errors())}")
    bars.note_history(bar, found)
    assert history.violations(found) == []
    odd = history.unexpected(found)
    assert not odd, odd[:3]
    assert running == {name: service.process.pid for name, service in place.fleet.services.items()}


def note_gap(crowd, bar, moment, most):
    """For how long nobody wrote around `moment`, by the clock of time.monotonic()."""
    moment = int(moment * history.SECOND)
    gap = crowd.history.gap(moment)
    print(f"nobody wrote for {gap:.1f} s: {crowd.history.gaps(moment)}")
    bar("writers' gap", gap, unit="s", most=most)
    return gap


@pytest.mark.cluster
def test_switchover(place, seed, bar):
    """C4: another leader by an operator's wish, under load: nothing acknowledged is lost or happens twice, and writes go on"""
    with load(place, seed, bar) as crowd:
        node, moment = place.database.switch_over()
        crowd.wait_for_writes(10)
        leader = place.database.wait_for_another(node)
        print(f"{leader.name} took over from {node.name}")
        note_gap(crowd, bar, moment, SWITCHOVER_BAR)


def connections(place, port):
    """The services' connections to a port that stand: pairs of a process's id and its own port."""
    found = set()
    for service in place.fleet.services.values():
        folder = pathlib.Path("/proc") / str(service.process.pid)
        sockets = set()
        for descriptor in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(descriptor))
        for row in (folder / "net" / "tcp").read_text().splitlines()[1:]:
            columns = row.split()
            own, other = (int(address.rpartition(":")[2], 16) for address in columns[1:3])
            if columns[3] == "01" and other == port and f"socket:[{columns[9]}]" in sockets:
                found.add((service.process.pid, own))
    return found


class Writer:
    """A connection of psql to one node, made while that leads and used once it does no more."""

    def __init__(self, place, node, number):
        self.number = number
        command = [str(place.database.tools / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", node.url()]
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PGPASSWORD": database.PASSWORD}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd="/"
        )  # fmt: skip
        self.say("SELECT 'connected';")
        assert self.process.stdout.readline() == "connected\n"

    def say(self, sql):
        self.process.stdin.write(f"{sql}\n")
        self.process.stdin.flush()

    def write(self):
        self.say(f"INSERT INTO public.probe VALUES ({self.number});")
        self.process.stdin.close()

    def is_acknowledged(self):
        said = self.process.stdout.read()
        status = self.process.wait(timeout=60)
        print(f"writer {self.number} ended with {status}: {said}")
        return status == 0

    def end(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def writers(place, node, numbers):
    assert place.database.commits()
    found = [Writer(place, node, number) for number in numbers]
    try:
        yield found
    finally:
        for writer in found:
            writer.end()


def first_in_the_list(place):
    """Has a node lead that storage.url names before the one that takes over: the services come by it whenever they connect."""
    cluster = place.database
    for _ in range(3):
        cluster.wait_until_whole()
        members = cluster.members()
        names = sorted(name for name, member in members.items() if member["role"] in ("leader", "sync_standby"))
        if members[names[0]]["role"] == "leader":
            return
        cluster.switch_over()
    raise AssertionError(f"after three switchovers: {cluster.members()}")


@pytest.mark.cluster
def test_leader_stands_still(place, seed, bar):
    """C4: the leader's machine stands still until another one leads and then goes on, under load: nothing acknowledged is lost or
    happens twice, the services let go of it, and it acknowledges nothing any more"""
    first_in_the_list(place)
    with load(place, seed, bar) as crowd:
        node = place.database.leader()
        with writers(place, node, range(-3, 0)) as late:
            moment = time.monotonic()
            with node.standing_still(patroni_later=PATRONI_LATER):
                before = connections(place, node.port)
                assert before
                leader = place.database.wait_for_another(node)
                crowd.wait_for_writes(10, seconds=120)
                # Each instance has to do with the new leader.
                eventually(lambda: all(service.is_ready() for service in place.fleet.services.values()), "not all are ready")
                eventually(lambda: not before & connections(place, node.port), "connections to the old leader stand")
                for writer in late:
                    writer.write()
                still = time.monotonic() - moment
            print(f"{node.name} stood still for {still:.1f} s, {leader.name} leads")
            place.database.wait_until_whole()
            acknowledged = [writer.number for writer in late if writer.is_acknowledged()]
        crowd.wait_for_writes(10)
        note_gap(crowd, bar, moment, SILENT_BAR)
        bar("acknowledged by a leader that was", len(acknowledged), most=0)
        assert acknowledged == []
        assert place.database.query("SELECT count(*) FROM public.probe WHERE n < 0") == "0"
        assert place.database.leader() is leader


@pytest.mark.cluster
def test_patroni_stands_still(place, seed, bar):
    """C4: the leader's Patroni alone stands still, under load, so that nobody tells the leader that another one takes its place:
    the services find out, though it still says that it takes writes, and nothing acknowledged is lost or happens twice"""
    first_in_the_list(place)
    with load(place, seed, bar) as crowd:
        node, moment = place.database.leader(), time.monotonic()
        node.patroni.popen.send_signal(signal.SIGSTOP)
        try:
            leader = place.database.wait_for_another(node)
            crowd.wait_for_writes(10, seconds=120)
            eventually(lambda: all(service.is_ready() for service in place.fleet.services.values()), "not all are ready")
            eventually(lambda: not connections(place, node.port), "connections to the old leader stand")
            print(f"{leader.name} leads, and {node.name} thinks that it does")
            note_gap(crowd, bar, moment, SILENT_BAR)
        finally:
            node.patroni.popen.send_signal(signal.SIGCONT)


@pytest.mark.cluster
def test_leader_gone(place, seed, bar):
    """C4: the leader's machine gone and started again once another one leads, under load: nothing acknowledged is lost or happens
    twice, and writes go on by themselves"""
    with load(place, seed, bar) as crowd:
        node, moment = place.database.leader(), time.monotonic()
        node.stop()
        leader = place.database.wait_for_another(node)
        print(f"{node.name} is gone, {leader.name} leads")
        crowd.wait_for_writes(10, seconds=120)
        node.start()
        note_gap(crowd, bar, moment, SILENT_BAR)


@pytest.mark.cluster
def test_etcd_stands_still(place, seed, bar):
    """C4: without etcd for longer than its leader's lock lives, under load: the leader stays the same, and writes go on"""
    with load(place, seed, bar) as crowd:
        node, moment = place.database.leader(), time.monotonic()
        with contextlib.ExitStack() as still:
            for member in place.database.etcd:
                still.enter_context(member.standing_still())
            time.sleep(ETCD_AWAY_SECONDS)
            assert place.database.leader() is node
        crowd.wait_for_writes(10)
        place.database.wait_until_whole()
        # Everybody who may want to lead has looked at etcd since.
        time.sleep(3)
        assert place.database.leader() is node
        gap = note_gap(crowd, bar, moment, ETCD_BAR)
        assert gap <= ETCD_BAR


class Schema:
    """`latchkey admin schema` over one database of the cluster."""

    def __init__(self, place, name="latchkey"):
        self.place, self.cluster, self.name = place, place.database, name

    def make(self):
        """A database with nothing in it, on all nodes: where it is not replayed the search for the one that leads would end."""
        url = self.cluster.leader().url("postgres").replace(f"{database.USER}@", "postgres@")
        sql = f"CREATE DATABASE {self.name} OWNER {database.USER} ENCODING 'UTF8' TEMPLATE template0"
        self.cluster.psql(url, sql, password=database.INNER_PASSWORD)
        eventually(lambda: all(node.has_database(self.name) for node in self.cluster.nodes))

    def start(self, *words):
        url = self.cluster.url("admin").replace("/latchkey?", f"/{self.name}?")
        password = self.place.fleet.directory / "database-password"
        command = [str(self.place.fleet.binaries / "latchkey"), "admin", "schema", *words, "--to", url, "--json"]
        return subprocess.Popen(
            [*command, "--database-password-file", str(password)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=services.clean_environment(),
        )  # fmt: skip

    def finish(self, job):
        """Its exit status: everything is made, or it says plainly why that is not so or not known."""
        said, aside = job.communicate(timeout=60)
        answer = json.loads(said)
        print(f"{self.name}: {job.args[3]} ended with {job.returncode} {answer.get('error', '')} {aside[-300:]}")
        if job.returncode == 0:
            assert answer["usable"]
            for found in answer["schemas"]:
                assert found["missing"] == found["contractions"] == []
                assert [step["step"] for step in found["steps"]] == list(range(1, found["known"] + 1))
                assert all(step["finished_at"] for step in found["steps"])
        else:
            words = ("cannot be used now", "nobody knows whether the change was made")
            assert job.returncode == UNAVAILABLE and any(word in answer["error"]["message"] for word in words), answer
        return job.returncode

    def __call__(self, *words):
        return self.finish(self.start(*words))

    @contextlib.contextmanager
    def in_the_way(self, node):
        """Somebody makes a table that the QR service's first step makes, and does not say for good whether."""
        sql = "CREATE SCHEMA qr; BEGIN; CREATE TABLE qr.qr_changes (id bigint); SELECT pg_sleep(120)"
        psql = subprocess.Popen(
            [str(self.cluster.tools / "psql"), "-XAtq", f"{node.url(self.name)}?application_name=holder"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, cwd="/",
            env={"PATH": "/usr/bin:/bin", "PGPASSWORD": database.PASSWORD},
        )  # fmt: skip
        psql.stdin.write(sql + ";\n")
        psql.stdin.flush()
        try:
            self.wait_for(node, "holder", "PgSleep")
            yield
        finally:
            psql.kill()
            psql.communicate()

    def wait_for(self, node, who, what):
        """Until a connection to this database waits for something, by PostgreSQL's name of that."""
        sql = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{self.name}' AND application_name = '{who}'"
        sql += f" AND '{what}' IN (wait_event, wait_event_type)"
        eventually(lambda: self.cluster.psql(node.url(), sql) == "1", f"{who} does not wait for {what}", longest=0.02)

    def let_pass(self, node):
        self.cluster.psql(node.url(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holder'")

    def is_half_made(self):
        """Whether the first step of the QR service's is recorded without its tables, or they are there without the record."""
        count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'qr' AND tablename IN ('qr_sessions', 'qr_changes', 'members')"
        url = self.cluster.url("test").replace("/latchkey?", f"/{self.name}?")
        said = self.cluster.psql(url, f"SELECT count(finished_at), ({count}) FROM qr.latchkey_schema WHERE step = 1")
        print(f"{self.name}: the record and the tables of the first step: {said}")
        return said not in ("0|0", "1|3")


def kill_under(schema, committing):
    """Kills the leader in the midst of a step, or while the step's commit waits for a standby. Returns the job."""
    cluster = schema.cluster
    node = cluster.leader()
    with contextlib.ExitStack() as still, schema.in_the_way(node):
        job = schema.start("apply", "--contract")
        schema.wait_for(node, "latchkey-admin", "Lock")
        if committing:
            for other in cluster.nodes:
                if other is not node:
                    still.enter_context(other.standing_still(with_patroni=False))
            schema.let_pass(node)
            schema.wait_for(node, "latchkey-admin", "SyncRep")
        moment = time.monotonic()
        node.kill()
    print(f"{node.name} was killed under a job, {'committing' if committing else 'in the midst of a step'}")
    return job, moment


@pytest.mark.cluster
def test_schema_job(place, seed, bar):
    """C4, C10: the leader killed under a job that brings tables forward, in the midst of a step and of its commit, under load: it
    says that the database went away, no step is half made, and started again it makes the rest"""
    with load(place, seed, bar) as crowd:
        for name in ("in_a_step", "in_a_commit"):
            place.database.wait_until_whole()
            new, served = Schema(place, name), Schema(place)
            new.make()
            assert served("apply", "--contract") == 0
            job, moment = kill_under(new, committing=name == "in_a_commit")
            new.finish(job)
            # Also where nothing is to be done.
            eventually(lambda: served("apply", "--contract") == 0, "nobody leads")
            assert not new.is_half_made()
            eventually(lambda: new("apply", "--contract") == 0, "the steps are not made")
            assert new("status") == served("status") == 0
            crowd.wait_for_writes(10)
            note_gap(crowd, bar, moment, SWITCHOVER_BAR)
