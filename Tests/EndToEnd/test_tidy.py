"""The house stays tidy: lengths, linters, dependencies, and nothing left behind by a merge."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTION_LINES = 60
FILE_LINES = 450

# Functions that are longer than that, and why they still are. They get shorter, never longer.
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
    """No file of Swift is longer than 450 lines"""
    long = {}
    for path in tracked("Sources/*.swift"):
        length = len(path.read_text().splitlines())
        if written_by_hand(path) and length > FILE_LINES:
            long[path.relative_to(ROOT).as_posix()] = length
    assert not long, long


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


def test_walks_are_short_and_true():
    """Each walk through the code names one file a step, all of them there, and takes no more steps than it may"""
    page = (ROOT / "Sources/LatchkeyModel/LatchkeyModel.docc/Architecture.md").read_text()
    walks = {
        "`PollSession`, one that": ("", 8),
        "`Authenticate` by a password.": ("IdentityService/", 10),
        "A migration's APPLY": ("", 7),
    }
    for begin, (room, steps) in walks.items():
        found = re.search(rf"^{re.escape(begin)}.*\n(?:.+\n)*\n((?:(?:\d+\.|  ) .+\n)+)", page, re.MULTILINE)
        assert found, f"no walk begins with {begin}"
        walk = re.findall(r"^\d+\. `([\w/+]+\.swift)`", found[1], re.MULTILINE)
        assert len(walk) == len(re.findall(r"^\d+\.", found[1], re.MULTILINE)) > 5, f"a step of {begin} begins with no file"
        assert len(walk) <= steps and len(set(walk)) == len(walk), walk
        missing = [file for file in walk if not (ROOT / "Sources" / file).is_file() and not (ROOT / "Sources" / (room + file)).is_file()]
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


def declared_modules():
    """(name, its dependencies) of each Swift module of ours that Package.swift declares, tests' modules left out"""
    text = (ROOT / "Package.swift").read_text()
    products = dict(re.findall(r'let (\w+): Target\.Dependency = \.product\(name: "(\w+)"', text))
    for name, listed in re.findall(r'^ {4}module\(\s*"(\w+)"(?:,\s*\[([^\]]*)\])?', text, re.MULTILINE):
        if (ROOT / "Sources" / name).is_dir():
            yield name, [products.get(word, word) for word in re.findall(r"\w+", listed.replace('"', ""))]


def test_dependencies_are_used():
    """Every module that a target of Package.swift declares is imported by one of its files"""
    unused = []
    for name, dependencies in declared_modules():
        imported = set()
        for path in (ROOT / "Sources" / name).rglob("*.swift"):
            imported.update(re.findall(r"^\s*(?:@\w+(?:\([^)]*\))? )*(?:\w+ )?import (?:\w+ )?(\w+)", path.read_text(), re.MULTILINE))
        unused += [f"{name} declares {dependency}" for dependency in dependencies if dependency not in imported]
    assert not unused, unused


def test_an_app_links_no_server():
    """Nothing that LatchkeyClient stands on, however far down, is a server's"""
    modules = dict(declared_modules())
    below, left = set(), ["LatchkeyClient"]
    while left:
        name = left.pop()
        if name not in below:
            below.add(name)
            left += modules.get(name, [])
    assert {"TransportClient", "Transport", "HTTP2", "GRPC"} <= below, "the modules could not be read"
    served = {"TransportServer", "ServiceRuntime", "Callers", "Domain", "Storage", "StorageSQLite", "StorageMemory"}
    assert served <= set(modules), "a module has another name"
    served |= {name for name in modules if name.endswith("Service")}
    assert not below & served, below & served


if __name__ == "__main__":
    for place, line, length in long_functions():
        print(f"{length:4} {place}:{line}")
