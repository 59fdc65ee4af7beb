"""All instances of an installation restarted one after the other, behind its balancer and under load."""

import json
import subprocess
import time

import bars
import history
import people
import pytest
from services import clean_environment


class Load:
    """`latchkey load` through the balancer: sign-ins by QR code."""

    def __init__(self, place, folder):
        self.path = folder / "load.json"
        addresses = [f"--{name}={place.front[name].address}" for name in ("identity", "qr")]
        words = ["--mode", "full", "--rate", "10", "--duration", "3600s", "--json", str(self.path)]
        self.process = subprocess.Popen(
            [str(place.fleet.binaries / "latchkey"), "load", *words, *addresses],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_environment(),
        )  # fmt: skip

    def end(self):
        """Told to stop, it reports of the time until then."""
        self.process.terminate()
        said, _ = self.process.communicate(timeout=120)
        print(said)
        return json.loads(self.path.read_text())


def restart(place, crowd, service):
    process = service.process
    assert service.stop() == 0, f"{service.name} did not drain:\n{service.log_tail()}"
    crowd.wait_for_writes(3)
    service.start()
    assert service.process is not process
    # The balancer looks twice a second.
    time.sleep(1)
    crowd.wait_for_writes(3)


@pytest.mark.cluster
def test_rolling_restart(place, seed, tmp_path, bar):
    """C7: all instances restarted one after the other under load, behind the balancer: no flow fails for a client that tries
    again what was UNAVAILABLE"""
    load, restarted = Load(place, tmp_path), 0
    try:
        with people.Crowd(place.front, seed) as crowd:
            crowd.wait_for_writes(10)
            for service in place.fleet.services.values():
                restart(place, crowd, service)
                restarted += 1
    finally:
        result = load.end()
    crowd.verify()
    print(f"{len(crowd.history)} calls; errors {dict(crowd.history.errors())}; load: {result['errors']}")
    bar("instances restarted", restarted, least=len(place.fleet.services))
    bar("sign-ins of `latchkey load`", result["redeemed"], least=1)
    bar("errors of `latchkey load`", result["error_count"], most=0)
    bars.note_history(bar, crowd.history, unexpected=history.unexpected_answers)
    assert restarted == len(place.fleet.services) == 6
    assert all(crowd.history.acknowledged().values()), crowd.history.acknowledged()
    assert history.violations(crowd.history) == []
    assert {error for error, _ in crowd.history.errors()} <= {"UNAVAILABLE"}
    odd = history.unexpected_answers(crowd.history)
    assert not odd, odd[:3]
    assert result["violation_count"] == 0 and result["redeemed"] > 0 and result["errors"] == {}
