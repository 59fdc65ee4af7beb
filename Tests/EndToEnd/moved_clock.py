"""A clock of the machine that a test moves: the executables are the real ones, only what they read as the time is ours."""

import mmap
import pathlib
import shutil
import struct
import subprocess
import time

SOURCE = pathlib.Path(__file__).with_suffix(".c")


class MovedClock:
    """Stands still until it is moved. Processes that start with `environment` go by it; those that `may_hurry` can be hurried."""

    def __init__(self, directory, may_hurry=False):
        library, path = pathlib.Path(directory) / "moved_clock.so", pathlib.Path(directory) / "clock"
        compiler = shutil.which("clang") or shutil.which("gcc")
        assert compiler, "a C compiler is missing: deploy/install-dependencies"
        subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        path.write_bytes(struct.pack("=qqq", 0, 0, may_hurry))
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 24)
        self._set(int(time.time()) * 1000)
        self.environment = {"LD_PRELOAD": str(library), "MOVED_CLOCK": str(path)}

    def _set(self, milliseconds):
        self._memory[:8] = struct.pack("=q", milliseconds)

    @property
    def milliseconds(self):
        return struct.unpack("=q", self._memory[:8])[0]

    def move(self, seconds):
        self._set(self.milliseconds + round(seconds * 1000))

    def set(self, seconds):
        """To a time since the epoch."""
        self._set(round(seconds * 1000))

    def hurry(self, seconds):
        """Has so many whole seconds go by for all who wait for a while, and for no time of day. Whoever was heard of a moment ago
        was so long ago."""
        self._memory[8:16] = struct.pack("=q", struct.unpack("=q", self._memory[8:16])[0] + seconds * 1000)
