"""What a run says of itself, for a person to read."""

import contextlib
import dataclasses
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
    wrong = history.violations(found)
    tell_errors(found)
    writes = len([operation for operation in found.answered(*history.WRITES) if operation.output != "refused"])
    counts = {kind: sum(text.startswith(kind) for text in wrong) for kind in ("lost", "doubled", "stale")}
    print(f"  acknowledged writes: {writes}; " + ", ".join(f"{kind} {count}" for kind, count in counts.items()))
    print(f"  sign-ins of `latchkey load`: {load['redeemed']} confirmed and handed over exactly once; "
          f"lost or handed over twice {load['violation_count']}; errors {load['error_count']} of {load['operations']}")  # fmt: skip
    for text in wrong[:20]:
        print(f"  ✘ {text}", file=sys.stderr)
    odd = history.unexpected(found)
    for operation in odd[:20]:
        print(f"  ✘ {operation.op}: {operation.error} {operation.message}, RetryInfo: {operation.retry_info}", file=sys.stderr)
    is_good = not wrong and not odd and not load["violation_count"]
    print(f"\n{'All is as it must be.' if is_good else 'Something is not as it must be.'}")
    return is_good


def tell_failover(found, failover, number):
    gaps = found.gaps(failover.moment)
    by_service = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(gaps.items()))
    print(f"  {number}. {failover.killed} led and was killed; {failover.successor} leads now.")
    print(f"     Writers' gap {found.gap(failover.moment):.1f} s ({by_service}); {failover.killed} follows after {failover.whole:.1f} s.")


def tell_errors(found):
    errors = found.errors()
    said = ", ".join(
        f"{code} {'with' if has_retry else 'without'} RetryInfo {count}" for (code, has_retry), count in sorted(errors.items())
    )
    print(f"\n  errors meanwhile: {said or 'none'}")
