"""A clock of the machine that a test moves: the executables are the real ones, only what they read as the time is ours."""

import mmap
import pathlib
import shutil
import struct
import subprocess
import time

SOURCE = pathlib.Path(__file__).with_suffix(".c")


class MovedClock:
    """Stands still until it is moved. Processes that start with `environment` go by it."""

    def __init__(self, directory):
        library, path = pathlib.Path(directory) / "moved_clock.so", pathlib.Path(directory) / "clock"
        compiler = shutil.which("clang") or shutil.which("gcc")
        assert compiler, "a C compiler is missing: deploy/install-dependencies"
        subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)
        self._set(int(time.time()) * 1000)
        self.environment = {"LD_PRELOAD": str(library), "MOVED_CLOCK": str(path)}

    def _set(self, milliseconds):
        self._memory[:] = struct.pack("=q", milliseconds)

    @property
    def milliseconds(self):
        return struct.unpack("=q", self._memory[:])[0]

    def move(self, seconds):
        self._set(self.milliseconds + round(seconds * 1000))

    def set(self, seconds):
        """To a time since the epoch."""
        self._set(round(seconds * 1000))
