"""The house stays tidy: lengths, linters, dependencies, and nothing left behind by a merge."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTION_LINES = 60
FILE_LINES = 450

# What is longer than that, and why it still is. It gets shorter, never longer.
LONG_FILES = {
    "Sources/Transport/Server/ServerStream.swift": "a call's states, until they are a machine of their own",
    "Sources/Transport/Server/ServerConnection.swift": "a connection's life, likewise",
    "Sources/Transport/Client/ConnectionPool.swift": "choosing, making and leaving connections",
    "Sources/HTTP2/Client/HTTP2ClientSession.swift": "one owner of one C session, with what its callbacks record",
    "Sources/HTTP2/Server/HTTP2ServerSession.swift": "a session's state and its events; frames and output stand beside it",
}

# Likewise for functions.
LONG_FUNCTIONS = {
    "Sources/HTTP2/Client/HTTP2ClientSession+Callbacks.swift makeCallbacks": "one C callback after the other",
}


def tracked(*patterns):
    names = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


def written_by_hand(path):
    return "Generated" not in path.parts and "Golden" not in path.parts and not re.search(r"\.pb-c\.[ch]$", path.name)


def functions(text):
    """(name, line, lines) of each Swift function and initialiser, by the indentation that the formatter keeps."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        begins = re.match(r"( *)(?:[@\w()]+ )*(?:func (\S+?)[(<]|(init)[?(<])", line)
        if not begins:
            continue
        indent, name = begins[1], begins[2] or begins[3]
        for end in range(number, len(lines)):
            if lines[end] == f"{indent}}}" or (lines[end].startswith(f"{indent}}}") and end > number and lines[end].strip() == "}"):
                yield name, number + 1, end - number + 1
                break
            if end > number and lines[end].strip() and not lines[end].startswith((f"{indent} ", f"{indent})", f"{indent}->", f"{indent}where")):
                break


def test_files_are_short():
    """No file of Swift is longer than 450 lines, but for a few with a reason"""
    long = {}
    for path in tracked("Sources/*.swift"):
        length = len(path.read_text().splitlines())
        if written_by_hand(path) and length > FILE_LINES:
            long[path.relative_to(ROOT).as_posix()] = length
    assert set(long) <= set(LONG_FILES), {name: length for name, length in long.items() if name not in LONG_FILES}
    assert set(LONG_FILES) <= set(long), f"short by now: {set(LONG_FILES) - set(long)}"
    assert len(LONG_FILES) <= 5


def long_functions():
    """(place, line, lines) of each function that is too long."""
    for path in tracked("Sources/*.swift"):
        if written_by_hand(path):
            for name, line, length in functions(path.read_text()):
                if length > FUNCTION_LINES:
                    yield f"{path.relative_to(ROOT).as_posix()} {name}", line, length


def test_functions_are_short():
    """No function of Swift is longer than 60 lines, but for a few with a reason"""
    long = {place: length for place, _, length in long_functions()}
    assert set(long) <= set(LONG_FUNCTIONS), {place: length for place, length in long.items() if place not in LONG_FUNCTIONS}
    assert set(LONG_FUNCTIONS) <= set(long), f"short by now: {set(LONG_FUNCTIONS) - set(long)}"
    assert len(LONG_FUNCTIONS) <= 5


def test_rooms_depend_on_little():
    """The handlers of a gRPC service of identity state at most eight things that they depend on, and none is the house"""
    rooms = {}
    for path in tracked("Sources/IdentityService/*Handlers.swift"):
        body = re.search(r"struct \w+Handlers: .*?\n((?:  .*\n|\n)*)", path.read_text())
        assert body, f"{path.name} states no handlers"
        rooms[path.stem] = re.findall(r"^  (?:package )?let (\w+): (.+)$", body[1], re.MULTILINE)
    assert len(rooms) > 10, "the handlers could not be found"
    assert all(0 < len(has) <= 8 for has in rooms.values()), {room: len(has) for room, has in rooms.items()}
    assert not [room for room, has in rooms.items() for _, kind in has if re.search(r"Identity(?:Rooms|Parts|Stores|Configuration)", kind)]


def test_documents_name_files_that_exist():
    """Every file of Swift that a document names is there"""
    there = ["/" + path.relative_to(ROOT).as_posix() for path in tracked("Sources/*.swift", "Tests/*.swift", "Package.swift")]
    missing = []
    for page in tracked("*.md"):
        for name in re.findall(r"`([\w+/]+\.swift)`", page.read_text()):
            if not any(path.endswith("/" + name) for path in there):
                missing.append(f"{page.relative_to(ROOT)}: {name}")
    assert not missing, missing


def test_nothing_is_left_of_a_merge():
    """No file holds the marks of a conflict"""
    marked = []
    for path in tracked():
        if path.suffix in {".png", ".bin"} or "Corpus" in path.parts:
            continue
        text = path.read_text(errors="replace")
        if re.search(r"^(?:<{7} |>{7} )", text, re.MULTILINE):
            marked.append(path.relative_to(ROOT).as_posix())
    assert not marked


def test_python_is_linted():
    """ruff finds no mistake in the tests' and the tools' Python"""
    finished = subprocess.run([sys.executable, "-m", "ruff", "check", "."], cwd=ROOT, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_shell_is_linted():
    """shellcheck finds no mistake in the scripts"""
    scripts = [path for path in tracked() if path.is_file() and re.match(rb"#!.*\b(?:ba)?sh\b", path.open("rb").readline(80))]
    assert len(scripts) > 10, "the scripts could not be found"
    finished = subprocess.run(
        [pathlib.Path(sys.executable).parent / "shellcheck", *scripts], cwd=ROOT, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stdout


def test_dependencies_are_used():
    """Every module that a target of Package.swift declares is imported by one of its files"""
    text = (ROOT / "Package.swift").read_text()
    products = dict(re.findall(r'let (\w+): Target\.Dependency = \.product\(name: "(\w+)"', text))
    unused = []
    for name, listed in re.findall(r'^ {4}module\(\s*"(\w+)",\s*(?:path: "[^"]*",\s*)?\[([^\]]*)\]', text, re.MULTILINE):
        folder = ROOT / "Sources" / name
        if not folder.is_dir():
            continue
        imported = set()
        for path in folder.rglob("*.swift"):
            imported.update(re.findall(r"^\s*(?:@\w+(?:\([^)]*\))? )*(?:\w+ )?import (?:\w+ )?(\w+)", path.read_text(), re.MULTILINE))
        for word in re.findall(r"[\w]+", listed.replace('"', "")):
            if products.get(word, word) not in imported:
                unused.append(f"{name} declares {products.get(word, word)}")
    assert not unused, unused


if __name__ == "__main__":
    for place, line, length in long_functions():
        print(f"{length:4} {place}:{line}")
