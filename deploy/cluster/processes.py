"""Processes that a run starts, and ends again: none outlives it, however it ends. Python's own library only."""

import collections
import contextlib
import os
import pathlib
import pwd
import signal
import subprocess
import time


class StartError(Exception):
    """Something did not come up; the text says what, with the end of its log."""


def other_user():
    """Whom PostgreSQL runs as, which refuses to be root: the account of Debian's package. Nil for one's own."""
    return pwd.getpwnam("postgres") if os.getuid() == 0 else None


def give(*paths):
    """Makes folders and files those of the other user, if there is one."""
    if account := other_user():
        for path in paths:
            os.chown(path, account.pw_uid, account.pw_gid)


def as_other_user():
    """What comes before a command, for it to run as the other user."""
    return ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups", "--"] if other_user() else []


class Process:
    """One program with a log of its own, which gets `farewell` when its parent is gone."""

    def __init__(self, name, command, log, *, is_other_user=False, environment=None, folder="/", farewell="SIGTERM"):
        self.name = name
        self.log = pathlib.Path(log)
        # The farewell is asked for last, because a change of user forgets it.
        before = [*(as_other_user() if is_other_user else []), "setpriv", "--pdeathsig", farewell, "--"]
        with open(self.log, "ab") as file:
            self.popen = subprocess.Popen(
                [*before, *map(str, command)],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=folder, start_new_session=True,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"} | (environment or {}),
            )  # fmt: skip

    @property
    def pid(self):
        return self.popen.pid

    def is_running(self):
        return self.popen.poll() is None

    def log_tail(self, lines=20):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, seconds=30):
        """Asks it to end, and kills it if it does not in time."""
        if self.is_running():
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                self.popen.kill()
        self.popen.wait()


def wait_until(condition, what, processes=(), seconds=60, every=0.05):
    """What `condition` returns once that is true; a StartError when it does not come or one of `processes` ends before."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        for process in processes:
            if not process.is_running():
                raise StartError(f"{process.name} ended with {process.popen.returncode}:\n{process.log_tail()}")
        if time.monotonic() > deadline:
            logs = "".join(f"\n\n{process.name}:\n{process.log_tail()}" for process in processes)
            raise StartError(f"{what} did not come about in {seconds} s{logs}")
        time.sleep(every)
    return found


def with_children(pid):
    """A process and all that descend of it, the parent first."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children = collections.defaultdict(list)
    for line in listed.splitlines():
        child, parent = map(int, line.split())
        children[parent].append(child)
    found = [pid]
    for known in found:
        found += children[known]
    return found


def kill(pids):
    """At once, as a crash or the kernel's out-of-memory killer would."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
