"""Runs the command blocks of README and of the guides, and compares what they print with what the pages show.

    .venv/bin/python Tests/EndToEnd/guides.py                 says which blocks print something of another shape
    .venv/bin/python Tests/EndToEnd/guides.py --record [PAGE] writes what they print into the pages

A ```console block holds commands, each behind "$ ", with what they print. The blocks of a page run in order, in one
folder, against three services of the page's own and the files of `Guides/files`. What is printed has to have the shape of
what the page shows: numbers, times, ids and codes may differ, and a line of "…" stands for any lines. A command's exit
status has to be 0, or what "[exit 2]" on a line of its own says.
A ```python block runs as a script. A comment before a block, <!-- not run: why -->, leaves it out.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "Tests" / "Story"))

import services  # noqa: E402

CATALOG = ROOT / "Sources" / "LatchkeyModel" / "LatchkeyModel.docc"
FILES = CATALOG / "Guides" / "files"
PAGES = [ROOT / "README.md", *sorted((CATALOG / "Guides").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?^```(?P<kind>console|sh|python)\n(?P<body>.*?)^```$", re.M | re.S)


class Block:
    def __init__(self, page, match):
        self.page = page
        self.kind = match["kind"]
        self.reason = match["reason"]
        self.body = match["body"]
        self.span = match.span("body")
        self.line = match.string.count("\n", 0, match.start("body"))

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self):
        """[(command, the lines that the page shows)]; a command is as the page has it, over several lines where it is."""
        found = []
        lines = self.body.splitlines()
        while lines:
            line = lines.pop(0)
            if not line.startswith("$ "):
                assert found, f"{self}: a console block begins with a command, behind '$ '"
                found[-1][1].append(line)
                continue
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + lines.pop(0)
            found.append((command, []))
        return found


def blocks(page):
    return [Block(page, match) for match in BLOCK.finditer(page.read_text())]


def shape(line):
    """A line without what differs from one run to the next."""
    line = re.sub(r"\b[A-Z]{4}(?:-[A-Z]{4})+\b", "#", line)
    line = re.sub(r"\b(?:lkl|lkr|lkw)_\S+|\beyJ\S+", "#", line)
    line = re.sub(r"(?<![\w-])[A-Za-z0-9_-]{20,}(?![\w-])", lambda m: m[0] if m[0].islower() and m[0].isalpha() else "#", line)
    line = re.sub(r"[A-Za-z]*\d[\w.:%]*", "#", line)
    return re.sub(r"\s+", " ", line).strip()


def shapes(lines):
    """The lines' shapes; what comes several times in a row, such as a QR code's lines or news of progress, comes once."""
    found = []
    for line in lines:
        told = "(a QR code)" if re.fullmatch(r"[ █▀▄]*[█▀▄][ █▀▄]*", line) else shape(line)
        if not found or told != found[-1]:
            found.append(told)
    while found and not found[-1]:
        found.pop()
    return found


def matches(shown, printed):
    """Whether what was printed has the shape of what is shown; "…" is any number of lines."""
    shown, printed = shapes(shown), shapes(printed)

    def rest(i, j):
        while i < len(shown) and shown[i] != "…":
            if j >= len(printed) or shown[i] != printed[j]:
                return False
            i, j = i + 1, j + 1
        return j == len(printed) if i == len(shown) else any(rest(i + 1, k) for k in range(j, len(printed) + 1))

    return rest(0, 0)


class Reader:
    """Somebody who follows a page, in a folder of their own."""

    def __init__(self, binaries, folder, arguments=None, prefers_defaults=False):
        self.folder = pathlib.Path(folder)
        self.fleet = services.Fleet(
            binaries, self.folder / "services", ports=services.choose_ports(prefers_defaults), arguments=arguments
        )
        self.home = self.folder / "home"
        self.home.mkdir()
        for file in FILES.iterdir() if FILES.exists() else ():
            (self.home / file.name).write_bytes(file.read_bytes())
        self.environment = services.clean_environment() | {
            "PATH": f"{pathlib.Path(binaries).resolve()}:{ROOT / (os.environ.get('VENV') or '.venv') / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "PROTO": str(ROOT / "proto"),
            "DATA": str(self.fleet.data_directory),
            "MANAGEMENT_PORT": str(self.fleet.ports["identity"][1]),
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }
        for name in services.NAMES:
            self.environment[f"LATCHKEY_{name.upper()}_ADDRESS"] = f"127.0.0.1:{self.fleet.ports[name][0]}"

    def __enter__(self):
        self.fleet.start()
        return self

    def __exit__(self, *_):
        self.fleet.stop()

    def run(self, command, timeout=120):
        """What the command prints, with its exit status at the end where that is not 0."""
        finished = subprocess.run(
            ["bash", "-c", command], cwd=self.home, env=self.environment, timeout=timeout,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        lines = [line.rstrip() for line in finished.stdout.splitlines()]
        return lines + ([f"[exit {finished.returncode}]"] if finished.returncode else [])

    def script(self, program, text):
        """Nothing, or what a script printed that failed."""
        (self.home / "script").write_text(text)
        printed = self.run(f"{program} script")
        return printed if printed and printed[-1].startswith("[exit") else []


def follow(page, reader):
    """Runs the page's blocks. Yields (block, what it shows by command, what it prints by command)."""
    for block in blocks(page):
        if block.reason:
            continue
        if block.kind != "console":
            program = {"python": "python", "sh": "bash -e"}[block.kind]
            yield block, [(program, [])], [(program, reader.script(program, block.body))]
        else:
            shown = block.commands()
            yield block, shown, [(command, reader.run(command)) for command, _ in shown]


def record(page, reader):
    text = page.read_text()
    changes = []
    for block, shown, printed in follow(page, reader):
        if block.kind != "console":
            continue
        body = ""
        for (command, old), (_, new) in zip(shown, printed, strict=True):
            lines = old if matches(old, new) or "…" in old else new
            if lines is old and not matches(old, new):
                print(f"{block}: {command}: needs a hand:", *new, sep="\n    ")
            body += "\n".join([f"$ {command}", *lines]) + "\n"
        changes.append((block.span, body))
    for (begin, end), body in reversed(changes):
        text = text[:begin] + body + text[end:]
    page.write_text(text)


def main(words):
    recording = "--record" in words
    names = [word for word in words if not word.startswith("--")]
    differences = 0
    for page in PAGES:
        if names and page.stem not in names or not blocks(page):
            continue
        with tempfile.TemporaryDirectory() as folder:
            with Reader(os.environ.get("BINARIES", ROOT / ".build" / "debug"), folder, prefers_defaults=True) as reader:
                if recording:
                    record(page, reader)
                    continue
                for block, shown, printed in follow(page, reader):
                    for (command, old), (_, new) in zip(shown, printed, strict=True):
                        if not matches(old, new):
                            differences += 1
                            print(f"{block}: $ {command}", *new, sep="\n    ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
