"""PollSession of a pending session: latchkey-qr with its table full, nghttpd with a small file, and gRPC C++."""

import base64
import contextlib
import os
import time

import grpc

import loads
import machine
import servers

# connections x streams, and the requests of a round: a second or two of the fastest server's time.
SHAPES = {(1, 100): 200_000, (10, 10): 200_000, (50, 100): 300_000, (50, 1): 100_000, (500, 1): 100_000}
# Polls of codes drawn at random, and the few sessions that they are compared with.
SPREAD_POLLS = 200_000
FEW = 1000
# Where the kernel's part is measured by itself: one request is under way on a connection.
FLOOR_SHAPE = (500, 1)
# What a round of a slower peer shrinks by: its figures need no more requests than the others' need time.
SHARE = {"latchkey-qr": 1, "nghttpd": 1, "grpc-cpp": 0.25}
# Codes live for 600 s at most: polling stops in time, and says so.
SESSIONS_LIVE_SECONDS = 590


def field(number, value):
    """One length-delimited protobuf field."""
    assert number < 16 and len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def poll_request(device_code):
    return field(1, device_code)


def call(server, path, message):
    """One call by a stock gRPC client, which looks at grpc-status where h2load does not."""
    address = f"127.0.0.1:{server.port}"
    options = [("grpc.use_local_subchannel_pool", 1)]
    if server.tls:
        credentials = grpc.ssl_channel_credentials(servers.certificate().authority.read_bytes())
        channel = grpc.secure_channel(address, credentials, options)
    else:
        channel = grpc.insecure_channel(address, options)
    with channel:
        return channel.unary_unary(path)(message, timeout=10)


def check_pending(server, poll):
    answer = call(server, servers.POLL, poll)
    if not answer.startswith(b"\x08\x01"):  # Field 1, the state, is 1: PENDING.
        raise SystemExit(f"bench: {server.name} did not answer PENDING but {answer!r}")


def issue_sessions(server, count, connections=50, streams=10):
    """Fills the table through the front door. Returns the file with the device codes."""
    codes = machine.OUT / f"codes-{count}"
    loads.own("issue", server, "--out", codes, connections=min(connections, count), streams=streams, requests=count)
    return codes


def floors_here(stack):
    """The floors that this kernel has: containers are mostly refused io_uring."""
    floors = []
    for kind in servers.FLOORS:
        try:
            floors.append(stack.enter_context(servers.floor(kind)))
        except SystemExit as error:
            print(f"without {kind}: {error}", flush=True)
    return floors


def run(options, results):
    """Interleaved rounds: every shape by every server in turn, so that what slows the machine slows them all."""
    for tls in options.modes:
        with contextlib.ExitStack() as stack:
            ours, file, peer = (
                stack.enter_context(server(tls))
                for server in (servers.latchkey_qr, servers.nghttpd, servers.grpc_cpp)
            )
            began = time.monotonic()
            codes = issue_sessions(ours, options.sessions)
            with open(codes, "rb") as lines:
                code = lines.readline().strip()
            print(f"{'TLS' if tls else 'cleartext'}: {options.sessions:,} sessions live", flush=True)
            spread = [(options.sessions, ours, codes)]
            if not tls and options.sessions > FEW:
                small = stack.enter_context(servers.latchkey_qr(tls, servers.fresh_directory("qr-few")))
                spread.append((FEW, small, issue_sessions(small, FEW)))
            unknown = base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=")
            targets = [
                (ours, servers.POLL, poll_request(code)),
                (file, "/answer", None),
                (peer, servers.POLL, poll_request(unknown)),
            ]
            floors = [] if tls else floors_here(stack)
            slowest = 0
            for number in range(1, options.rounds + 1):
                started = time.monotonic()
                if started - began + slowest > SESSIONS_LIVE_SECONDS:
                    print(f"the sessions are about to expire: stopped after {number - 1} rounds", flush=True)
                    break
                for shape in options.shapes:
                    for server, path, message in targets:
                        requests = int(SHAPES[shape] * SHARE[server.name])
                        if message is not None:
                            check_pending(server, message)
                        row = loads.measure(server, path, message and loads.framed(message), *shape, requests)
                        if message is not None:
                            check_pending(server, message)
                        results.add(server.name, "poll_session", number, sessions=options.sessions, **row)
                    for floor in floors if shape == FLOOR_SHAPE else []:
                        row = loads.measure(floor, servers.POLL, loads.framed(poll_request(code)), *shape, SHAPES[shape])
                        results.add(floor.name, "read_and_write", number, **row)
                # Codes drawn at random: a table that does not fit into a cache shows.
                for sessions, server, codes in spread if len(spread) > 1 else []:
                    row = loads.measure_own("poll", server, 50, 100, SPREAD_POLLS, "--in", codes)
                    results.add(server.name, "poll_any_session", number, sessions=sessions, **row)
                slowest = max(slowest, time.monotonic() - started)
                print(f"  round {number} of {options.rounds}: {time.monotonic() - started:.0f} s", flush=True)


def bars(results):
    """The bars as (what, measured, bar), each the median over the rounds of a ratio within one round."""
    cpu = "cpu_us_per_request"

    def ratio(peer, shape, tls):
        connections, streams = shape
        where = {"operation": "poll_session", "connections": connections, "streams": streams, "tls": tls}
        return results.ratio(cpu, {"server": "latchkey-qr", **where}, {"server": peer, **where})

    for peer, shape, bar in [
        ("grpc-cpp", (50, 100), 0.15),
        ("nghttpd", (50, 100), 0.90),
        ("grpc-cpp", (500, 1), 0.33),
        ("nghttpd", (500, 1), 1.10),
    ]:
        yield f"poll, {shape[0]}×{shape[1]}: CPU of {peer}'s", ratio(peer, shape, False), bar
    # No bar can be below it.
    connections, streams = FLOOR_SHAPE
    where = {"connections": connections, "streams": streams, "tls": False}
    peer = {"server": "grpc-cpp", "operation": "poll_session", **where}
    for kind in servers.FLOORS:
        floor = results.ratio(cpu, {"server": f"floor-{kind}", "operation": "read_and_write", **where}, peer)
        yield f"reading and writing alone ({kind}), {connections}×{streams}: CPU of grpc-cpp's", floor, None
    where = {"server": "latchkey-qr", "operation": "poll_session", "connections": 50, "streams": 100}
    # Cleartext and TLS are measured one after the other, so here only medians can be compared.
    clear = results.median(cpu, tls=False, **where)
    with_tls = results.median(cpu, tls=True, **where)
    yield "poll, 50×100: TLS in CPU of cleartext", with_tls / clear, 1.5
    many = {"server": "latchkey-qr", "operation": "poll_any_session"}
    counts = {row["sessions"] for row in results.select(**many)}
    if len(counts) > 1:
        most = {**many, "sessions": max(counts)}
        value = results.ratio(cpu, most, {**many, "sessions": FEW})
        yield f"poll: CPU at {max(counts):,} sessions of that at {FEW:,}", value, 1.3
