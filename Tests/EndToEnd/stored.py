"""What the services keep, whichever engine they keep it in."""

import contextlib
import sqlite3


def is_postgresql(fleet):
    return hasattr(fleet, "database")


def number(fleet, service, sql):
    """The number that a service's own tables answer with, while it runs or not."""
    if is_postgresql(fleet):
        part = {"migrator": "migration"}.get(service, service)
        return int(fleet.server.query(f"SET search_path TO {part}; {sql}", database=fleet.database))
    with contextlib.closing(sqlite3.connect(f"file:{fleet.data_directory / service}.db?mode=ro", uri=True)) as database:
        return database.execute(sql).fetchone()[0]


def files(fleet):
    """Every file that has something of theirs: with those of a database server, its log among them."""
    folders = [fleet.data_directory]
    if is_postgresql(fleet):
        fleet.server.query("CHECKPOINT", database="postgres")
        folders.append(fleet.server.folder)
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]
