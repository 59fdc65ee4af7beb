"""What a person does in a film app before signing in, as records that `latchkey record put` stores.

The films are real: 17,472 of them from Wikidata (CC0), in the database that the PyPI package bokeh-sampledata ships.
What was watched, liked, put into the cart and downloaded is drawn from them by a checksum, so every run gives the
same rows. The two visits overlap: some films of the second were there in the first, which is what a merge is about.

    python Tests/Story/story_records.py 1 >first-visit.jsonl
"""

import datetime
import importlib.util
import json
import pathlib
import sqlite3
import sys
import zlib

# collection: (rows in a visit, how many of the second visit's films the first visit has too)
SIZES = {"history": (2000, 700), "favourites": (500, 150), "cart": (120, 40), "downloads": (380, 90)}

FIRST_VISIT = datetime.datetime(2026, 11, 1, 18, 0, tzinfo=datetime.timezone.utc)
SECOND_VISIT = datetime.datetime(2026, 11, 8, 18, 0, tzinfo=datetime.timezone.utc)


def films():
    """Every film, in an order that looks drawn by lot and never changes."""
    package = importlib.util.find_spec("bokeh_sampledata")
    if package is None:
        sys.exit("story_records: the package bokeh-sampledata is missing; Tests/Tools/venv installs it")
    path = pathlib.Path(package.submodule_search_locations[0]) / "_data" / "movies.db"
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    rows = database.execute(
        'SELECT "imdbID", "Title", "Year", "Runtime", "Genre", "Director", "Country" FROM omdb ORDER BY "imdbID"'
    ).fetchall()
    database.close()
    unique = {row[0]: row for row in rows}
    return sorted(unique.values(), key=lambda row: zlib.crc32(row[0].encode()))


def records(visit):
    """The records of visit 1 or 2, newest last within a collection."""
    if visit not in (1, 2):
        raise ValueError("there are two visits, 1 and 2")
    everything = films()
    start = FIRST_VISIT if visit == 1 else SECOND_VISIT
    offset = 0
    for collection, (size, shared) in SIZES.items():
        first = offset if visit == 1 else offset + size - shared
        for index, film in enumerate(everything[first : first + size]):
            yield record(collection, film, start + datetime.timedelta(seconds=97 * index), visit)
        offset += 2 * size


def record(collection, film, when, visit):
    imdb_id, title, year, runtime, genre, director, country = film
    lot = zlib.crc32(f"{collection}/{imdb_id}/{visit}".encode())
    minutes = int(runtime or 90)
    value = {"title": title, "year": year}
    number = 0
    if collection == "history":
        number = 60 * (1 + lot % minutes)  # seconds watched
        value |= {"director": director, "minutes": minutes}
    elif collection == "favourites":
        value |= {"genre": genre, "country": country}
    elif collection == "cart":
        number = 1 + lot % 3  # copies
    elif collection == "downloads":
        number = minutes * (8 + lot % 5) * 1_000_000  # bytes
        value |= {"path": f"films/{imdb_id}.mp4"}
    return {
        "collection": collection,
        "key": imdb_id,
        "value": json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        "number": number,
        "updated_at": when.isoformat().replace("+00:00", "Z"),
    }


def main():
    if sys.argv[1:] not in (["1"], ["2"]):
        sys.exit("usage: story_records.py 1|2")
    for row in records(int(sys.argv[1])):
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
