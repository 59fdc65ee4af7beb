"""What a run says of itself, for a person to read."""

import contextlib
import dataclasses
import statistics
import sys
import time

import history
import services


@dataclasses.dataclass
class Failover:
    """One kill of the leader; `moment` in nanoseconds, `whole` the seconds until two followed again."""

    killed: str
    successor: str
    moment: int
    whole: float

    def gaps(self, found):
        """The writers' gaps by service: until it was whole again, after which the next one may be killed."""
        return found.gaps(self.moment, self.whole)


def heading(text):
    print(f"\n{text}\n", flush=True)


class Step:
    said = ""

    def says(self, text):
        self.said = text


@contextlib.contextmanager
def step(text):
    """Prints a step when its block is done, with the time it took."""
    start, done = time.monotonic(), Step()
    try:
        yield done
    except BaseException:
        print(f"  ✘ {text}", flush=True)
        raise
    print(f"  ✔ {text}: {done.said} ({time.monotonic() - start:.1f} s)", flush=True)


def parts(place):
    """Who is there and where."""
    members = place.database.members()
    for node in place.database.nodes:
        role = members[node.name]["role"].replace("_", " ")
        print(f"      {node.name:<12}{role:<14}127.0.0.1:{node.port}")
    for member in place.database.etcd:
        print(f"      {member.name:<12}{'':<14}127.0.0.1:{member.client_port}")
    for name in services.NAMES:
        instances = [service.address for service in place.fleet.services.values() if service.kind == name]
        print(f"      {name:<12}{'balanced':<14}{place.front[name].address}  over {' and '.join(instances)}")


def tell(found, failovers, load):
    """Prints what became of it all; true when it is as it must be."""
    for number, failover in enumerate(failovers, 1):
        tell_failover(found, failover, number)
    if failovers:
        tell_gap(statistics.median(max(failover.gaps(found).values()) for failover in failovers))
    tell_errors(found)
    wrong, idle, odd = history.violations(found), what_was_idle(found, load), history.unexpected(found)
    writes = ", ".join(f"{service} {count}" for service, count in found.acknowledged().items())
    print(f"  acknowledged writes: {writes}; " + ", ".join(f"{kind} {count}" for kind, count in history.counted(wrong).items()))
    print(f"  sign-ins of `latchkey load`: {load['redeemed']} confirmed and handed over exactly once; "
          f"lost or handed over twice {load['violation_count']}; errors {load['error_count']} of {load['operations']}")  # fmt: skip
    for text in [*wrong[:20], *idle]:
        print(f"  ✘ {text}", file=sys.stderr)
    for operation in odd[:20]:
        print(f"  ✘ {operation.op}: {operation.error} {operation.message}, RetryInfo: {operation.retry_info}", file=sys.stderr)
    is_good = not (wrong or idle or odd or load["violation_count"])
    print(f"\n{'All is as it must be.' if is_good else 'Something is not as it must be.'}")
    return is_good


def what_was_idle(found, load):
    """Parts of the load that did nothing, of which nothing could be lost: what they say is no success."""
    idle = [f"no write of {service} was acknowledged" for service, count in found.acknowledged().items() if not count]
    if not load["redeemed"]:
        idle.append("no sign-in of `latchkey load` was handed over")
    return idle


def tell_failover(found, failover, number):
    gaps = failover.gaps(found)
    by_service = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(gaps.items()))
    print(f"  {number}. {failover.killed} led and was killed; {failover.successor} leads now.")
    print(f"     Writers' gap {max(gaps.values()):.1f} s ({by_service}); {failover.killed} follows after {failover.whole:.1f} s.")


def tell_gap(median):
    """One kill may take longer: the bar is the median's of several."""
    verdict = "met" if median <= history.GAP_BAR else "MISSED"
    print(f"\n  writers' gap: {median:.1f} s in the median, at most {history.GAP_BAR} s: {verdict}")


def tell_errors(found):
    errors = found.errors()
    said = ", ".join(
        f"{code} {'with' if has_retry else 'without'} RetryInfo {count}" for (code, has_retry), count in sorted(errors.items())
    )
    print(f"  errors meanwhile: {said or 'none'}")
