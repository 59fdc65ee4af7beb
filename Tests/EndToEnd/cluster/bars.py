"""What is printed at the end of a run: each figure beside its bar, the promises whose tests ran, and the time that all took.

A test notes its figures by the fixture `bar`. They travel with the reports of tests, which come from other processes as well.
"""

import collections
import dataclasses
import itertools

import history
import promises


@dataclasses.dataclass(frozen=True)
class Bar:
    """A figure, and how large or small it may be; without either it is there to be read."""

    what: str
    figure: float
    unit: str = ""
    most: float | None = None
    least: float | None = None

    def verdict(self):
        if self.most is None and self.least is None:
            return ""
        is_met = (self.most is None or self.figure <= self.most) and (self.least is None or self.figure >= self.least)
        return "met" if is_met else "MISSED"

    def columns(self):
        limits = [("at most", self.most), ("at least", self.least)]
        bar = ", ".join(f"{word} {self.said(limit)}" for word, limit in limits if limit is not None)
        return self.what, self.said(self.figure), bar, self.verdict()

    def said(self, number):
        if self.unit == "min":
            return f"{int(number // 60)}:{int(number % 60):02} min"
        text = f"{number:.2f}" if isinstance(number, float) else f"{number:,}"
        return f"{text} {self.unit}".rstrip()


def note_history(bar, *histories, unexpected=history.unexpected):
    """The bars of what clients were told, whatever was done to the installation meanwhile."""
    counts = collections.Counter()
    for found in histories:
        counts.update(history.counted(history.violations(found)))
    bar("acknowledged writes", sum(sum(found.acknowledged().values()) for found in histories), least=1)
    bar("of what was acknowledged, lost", counts["lost"], most=0)
    bar("of what was acknowledged, done twice", counts["doubled"], most=0)
    bar("answers that were out of date", counts["stale"], most=0)
    bar("errors of another kind than may be", sum(len(unexpected(found)) for found in histories), most=0)


def lines(reports, seconds, most_seconds):
    """The table. `reports` are lists by test, which took so long together and may take so long."""
    # A test's last report brings all that it noted.
    noted = {test: [tuple(pair) for pair in of_test[-1].user_properties] for test, of_test in reports.items()}
    bars = {test: [Bar(**said) for name, said in pairs if name == "bar"] for test, pairs in noted.items()}
    whole = Bar("the whole of these tests", seconds, "min", most=most_seconds)
    widths = [max(map(len, column)) for column in zip(*(bar.columns() for bar in [whole, *itertools.chain(*bars.values())]))]

    def line(bar):
        what, figure, limits, verdict = bar.columns()
        return f"  {what:<{widths[0]}}  {figure:>{widths[1]}}  {limits:<{widths[2]}}  {verdict}".rstrip()

    for test, of_test in bars.items():
        if of_test:
            yield test.removeprefix("cluster/")
            yield from map(line, of_test)
    yield from ("", line(whole), "")
    titles = [(dict(pairs).get("title", ""), promises.outcome(reports[test])) for test, pairs in noted.items()]
    for promise, outcomes in promises.counted(titles).items():
        yield f"  {promise:<4} {promises.said(outcomes)}"
