"""Results: kept as they come, then as JSON, a table, the bars and pictures."""

import json
import math
import statistics

import machine

RESULTS = machine.OUT / "results.json"
COLOURS = {"latchkey-qr": "#1b7f5c", "nghttpd": "#7a869a", "grpc-cpp": "#c2683a", "latchkey-identity": "#2f6db5"}


class Results:
    def __init__(self):
        self.rows = []

    def add(self, server, operation, number, **columns):
        self.rows.append({"server": server, "operation": operation, "round": number, **columns})

    def select(self, **where):
        return [row for row in self.rows if all(row.get(name) == value for name, value in where.items())]

    def median(self, column, **where):
        values = [row[column] for row in self.select(**where)]
        return statistics.median(values) if values else math.nan

    def ratio(self, column, mine, theirs):
        """The median over the rounds of a column of `mine` as a part of `theirs` in the same round."""
        base = {row["round"]: row[column] for row in self.select(**theirs)}
        values = [row[column] / base[row["round"]] for row in self.select(**mine) if row["round"] in base]
        return statistics.median(values) if values else math.nan

    def with_others(self):
        """These, and the rows of operations that only earlier runs measured."""
        both = Results()
        mine = {row["operation"] for row in self.rows}
        if RESULTS.exists():
            both.rows = [row for row in json.loads(RESULTS.read_text()) if row["operation"] not in mine]
        both.rows += self.rows
        return both

    def write(self):
        """Whole or not at all, so that no end of a run can leave half a file."""
        fresh = RESULTS.with_suffix(".new")
        fresh.write_text("[\n" + ",\n".join(json.dumps(row) for row in self.rows) + "\n]\n")
        fresh.replace(RESULTS)


def print_table(results):
    """A line for each load and server; the first server of a load is compared with the others."""
    print("\nMedians over the rounds; CPU is the server's, in microseconds a request.\n")
    print(f"{'operation':16} {'among':>9} {'':5} {'shape':>8}  {'server':17} {'CPU µs':>9} {'req/s':>9} {'p50 µs':>8} "
          f"{'p99 µs':>8} {'RSS MiB':>8}  ours/its CPU")  # fmt: skip
    seen = set()
    for row in results.rows:
        where = {name: row.get(name) for name in ("operation", "sessions", "accounts", "tls", "connections", "streams")}
        group = tuple(where.values())
        # Rows without latencies are told of elsewhere, as are those of scale.py.
        if row.get("p50_us") is None or "cpu_us_per_request" not in row or group in seen:
            continue
        seen.add(group)
        among = where["sessions"] or where["accounts"]
        names = list(dict.fromkeys(other["server"] for other in results.select(**where)))
        for name in names:
            theirs = {"server": name, **where}
            ratio = results.ratio("cpu_us_per_request", {"server": names[0], **where}, theirs)
            print(
                f"{row['operation']:16} {f'{among:,}' if among else '':>9} {'TLS' if row['tls'] else 'clear':5} "
                f"{row['connections']:>4}×{row['streams']:<3}  {name:17} "
                f"{results.median('cpu_us_per_request', **theirs):9.2f} "
                f"{results.median('requests_per_second', **theirs):9.0f} {results.median('p50_us', **theirs):8.0f} "
                f"{results.median('p99_us', **theirs):8.0f} {results.median('rss_kib', **theirs) / 1024:8.1f}"
                f"  {'' if name == names[0] else f'{ratio:.2f}'}".rstrip()
            )
    for operation in dict.fromkeys(row["operation"] for row in results.select(server="openssl")):
        print(f"{operation:16} {'':9} {'':5} {'':8}  openssl speed     "
              f"{results.median('cpu_us_per_request', operation=operation):9.2f}")  # fmt: skip


def print_bars(bars):
    """Each bar is (what, measured, the most it may be; negative: the least; None: shown beside the others). Also kept as
    a table in Markdown."""
    measured = [bar for bar in bars if not math.isnan(bar[1])]
    if not measured:
        return
    lines = ["| what | measured | bar | |", "|---|---:|---:|---|"]
    print(f"\n{'bar':60} {'measured':>10}   {'bar':>9}")
    for what, value, bar in measured:
        if bar is None:
            print(f"{what:60} {value:10.2f}")
            lines.append(f"| {what} | {value:.2f} | | |")
            continue
        sign, met = ("≤", value <= bar) if bar >= 0 else ("≥", value >= -bar)
        verdict = "met" if met else "MISSED"
        print(f"{what:60} {value:10.2f} {sign} {abs(bar):9.2f}  {verdict}")
        lines.append(f"| {what} | {value:.2f} | {sign} {abs(bar):g} | {verdict.lower()} |")
    (machine.OUT / "bars.md").write_text("\n".join(lines) + "\n")


def draw_polls(results):
    """CPU a poll by shape, as PNG and SVG."""
    rows = results.select(operation="poll_session")
    if not rows:
        return []
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    modes = sorted({row["tls"] for row in rows})
    shapes = list(dict.fromkeys((row["connections"], row["streams"]) for row in rows))
    names = list(dict.fromkeys(row["server"] for row in rows))
    figure, axes = pyplot.subplots(1, len(modes), figsize=(6.4 * len(modes), 4.4), sharey=True, squeeze=False)
    for axis, tls in zip(axes[0], modes):
        for index, name in enumerate(names):
            values = [
                results.median("cpu_us_per_request", server=name, connections=connections, streams=streams, tls=tls)
                for connections, streams in shapes
            ]
            places = [place + (index - (len(names) - 1) / 2) * 0.27 for place in range(len(shapes))]
            bars = axis.bar(places, values, 0.25, color=COLOURS[name], label=name)
            axis.bar_label(bars, fmt="%.1f", fontsize=7.5, padding=2)
        axis.set_xticks(range(len(shapes)), [f"{connections}×{streams}" for connections, streams in shapes])
        axis.set_yscale("log")
        axis.set_yticks([1, 2, 5, 10, 20, 50, 100, 200], ["1", "2", "5", "10", "20", "50", "100", "200"])
        axis.minorticks_off()
        axis.set_title("TLS" if tls else "cleartext", fontsize=10)
        axis.set_xlabel("connections × concurrent requests on each")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("server CPU a request, µs (log scale)")
    axes[0][-1].legend(frameon=False, fontsize=8, loc="upper left")
    sessions = max((row.get("sessions", 0) for row in rows), default=0)
    figure.suptitle(f"Polling a pending QR session, {sessions:,} sessions live (lower is better)", fontsize=11)
    figure.tight_layout()
    paths = [machine.OUT / f"poll.{suffix}" for suffix in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
