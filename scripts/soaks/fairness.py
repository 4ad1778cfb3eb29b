"""Measures the effect on one local user while another one floods the daemon: the times of /v1/verify alone and during each flood,
and the slowest answer of /readyz.

The attacker has a process for each core, and 128 connections, as many as listener.max_connections_per_uid allows. Its floods are
pipelined requests that are refused for their heads, bodies of one-byte chunks, valid /v1/verify, and connections that are closed
at once. Attacker, user and daemon share the machine's cores. For comparison, one more row has an attacker that only computes,
because no daemon can regain processor time that the kernel gives to another process. The ledger is in memory. Each ratio is of
one round, and the median of the rounds counts.

The soak fails if the user's p99 in a flood is more than ten times the one without a flood, if an answer of /readyz took more than
a second or was not 200, or if a request got a wrong answer. It also fails if a non-blocking connect found the queue full in all
attempts that the project's clients make. The column "full" counts the connects that found it full at first. --short compares no
times.
"""
import contextlib
import errno
import multiprocessing
import os
import select
import socket
import statistics
import tempfile
import time

import deployment
import load
import service

ATTACKER, OTHER = 8, 9
CONNECTIONS = 128
# The number of the attacker's processes.
PROCESSES = os.cpu_count()
# The maximum number of chunks of a body.
CHUNKS = 1024
# The number of attempts that the project's clients make when a connect finds the queue full.
REPETITIONS = 10
FLOODS = ("alone", "computing", "heads", "chunks", "verify", "connects")
# The minimum number of the user's requests.
REQUESTS = 200


def verify(token):
    return load.post(b"/v1/verify", b'{"token":' + token.strip() + b"}")


def chunked():
    """Returns a request whose body is white space in one-byte chunks, which the daemon parses to its end."""
    return (b"POST /v1/verify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * CHUNKS + b"0\r\n\r\n")


def pipeline(path, block, ended):
    """Sends the block repeatedly on all connections, as fast as they accept it, and reads the answers."""
    block, poll, connections = block * max(1, 65_536 // len(block)), select.epoll(), {}

    def connect():
        while not ended.is_set():
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.connect(path)
                connections[connection.fileno()] = [connection, 0]
                poll.register(connection, select.EPOLLIN | select.EPOLLOUT)
                return
            connection.close()
            time.sleep(0.01)

    for _ in range(CONNECTIONS // PROCESSES):
        connect()
    while not ended.is_set():
        for descriptor, events in poll.poll(0.1):
            state = connections[descriptor]
            connection, sent = state
            try:
                if events & select.EPOLLIN and not connection.recv(262_144):
                    raise ConnectionResetError
                if events & select.EPOLLOUT:
                    state[1] = (sent + connection.send(block[sent:])) % len(block)
                elif not events & select.EPOLLIN:
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                poll.unregister(descriptor)
                connection.close()
                del connections[descriptor]
                connect()


def come_and_go(path, ended):
    while not ended.is_set():
        for _ in range(100):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    connection.connect(path)


def attack(name, path, token, ended):
    """Runs one attacker. Runs in a separate process."""
    service.become(ATTACKER)
    if name == "computing":
        while not ended.is_set():
            pass
    elif name == "connects":
        come_and_go(path, ended)
    else:
        block = {"heads": b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\nPUT /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 "chunks": chunked(), "verify": verify(token)}[name]
        pipeline(path, block, ended)


def attempts_to_connect(path):
    """Connects as the project's clients do: without blocking, and again while the queue is full."""
    for attempt in range(1, REPETITIONS + 2):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.setblocking(False)
            if connection.connect_ex(path) != errno.EAGAIN:
                return attempt
        time.sleep(0.02)
    return attempt + 1


def ask(path, request, seconds, result):
    """Runs the user, in a separate process. Puts the times of its requests, which use one connection, and the number of wrong
    answers into `result`. Between two requests it makes another connection, and counts how often the queue was full at first, and
    in all attempts."""
    service.become(OTHER)
    times, wrong, full, lost, until = [], 0, 0, 0, time.monotonic() + seconds
    connection = load.Connection(path)
    while time.monotonic() < until or len(times) < REQUESTS:
        began = time.monotonic()
        connection.send(None, request)
        while (answer := connection.receive()) is None:
            pass
        times.append(time.monotonic() - began)
        wrong += answer[0] != 200
        attempts = attempts_to_connect(path)
        full += attempts > 1
        lost += attempts > REPETITIONS + 1
        time.sleep(0.002)
    result.put((sorted(times), wrong, full, lost))


def measure(name, there, token, seconds):
    """Runs one flood. Returns the user's results, and the longest time of /readyz, which root requests on separate
    connections."""
    ended, result = multiprocessing.Event(), multiprocessing.Queue()
    attackers = [multiprocessing.Process(target=attack, args=(name, there.socket, token, ended), daemon=True)
                 for _ in range(PROCESSES if name != "alone" else 0)]
    other = multiprocessing.Process(target=ask, args=(there.socket, verify(token), seconds, result), daemon=True)
    for attacker in attackers:
        attacker.start()
    # After this pause the attackers have their connections, and the flood has begun.
    time.sleep(0.5)
    other.start()
    longest, unready, spent = 0.0, 0, there.daemon.cpu()
    began = time.monotonic()
    while result.empty():
        if not other.is_alive() and result.empty():
            raise service.Failed(f"{name}: the other user's requests broke off")
        asked = time.monotonic()
        unready += not there.daemon.is_ready()
        longest = max(longest, time.monotonic() - asked)
        time.sleep(0.02)
    cores = (there.daemon.cpu() - spent) / (time.monotonic() - began)
    found = result.get()
    ended.set()
    other.join()
    for attacker in attackers:
        attacker.join()
    return (*found, longest, unready, cores)


def main(parser):
    parser.add_argument("--flood", choices=FLOODS[1:], action="append", help="only these floods")
    options = service.parse(parser, rounds=(3, 1, "of all floods"), seconds=(5.0, 1.0, "of each flood"))
    rounds, seconds = options.rounds, options.seconds
    if os.geteuid() != 0:
        print("fairness: skipped: only root can connect as two users")
        return []
    floods = ["alone", *(options.flood or FLOODS[1:])]
    # The ledger is in memory, so that the pauses of a disk are not measured.
    directory = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    # Both users must be able to reach the socket through this directory.
    os.chmod(".", 0o711)
    access = ('access:\n  - { name: owner, user: "0", roles: [decrypt, monitor, admin] }\n'
              + "".join(f'  - {{ name: {name}, user: "{number}", roles: [decrypt] }}\n'
                        for name, number in {"attacker": ATTACKER, "other": OTHER}.items()))
    ledger = f"ledger:\n  url: sqlite:{directory.name}/ledger.sqlite\n"
    there = deployment.Deployment("fair", {"a": deployment.SoftHSMToken}, merchants=("ec",), listener={"mode": '"0666"'},
                                  ledger=ledger + access)
    os.chmod("fair", 0o711)
    results, wrong = {name: [] for name in floods}, []
    with directory, there:
        token, = service.mint(1, certificate="authority/ec.pem")
        for _ in range(rounds):
            for name in floods:
                results[name].append(measure(name, there, token, seconds))
        wrong += there.daemon.stop()
    print(f"{'flood':12}{'p50':>10}{'p99':>11}{'longest':>12}{'p50 ratio':>11}{'p99 ratio':>11}{'/readyz':>12}{'full':>8}"
          f"{'cores':>7}")
    for name in floods:
        p50, p99 = ([load.percentile(found[0], share) for found in results[name]] for share in (0.5, 0.99))
        ratios = [statistics.median(load.percentile(found[0], share) / load.percentile(alone[0], share)
                                    for found, alone in zip(results[name], results["alone"])) for share in (0.5, 0.99)]
        longest = max(found[0][-1] for found in results[name]) * 1000
        ready = max(found[4] for found in results[name])
        full, lost = (sum(found[place] for found in results[name]) for place in (2, 3))
        tried = sum(len(found[0]) for found in results[name])
        cores = statistics.median(found[6] for found in results[name])
        print(f"{name:12}{statistics.median(p50):7.2f} ms{statistics.median(p99):8.2f} ms{longest:9.1f} ms{ratios[0]:11.1f}"
              f"{ratios[1]:11.1f}{ready * 1000:9.1f} ms{full / tried:8.1%}{cores:7.2f}")
        if failed := sum(found[1] for found in results[name]):
            wrong.append(f"{name}: {failed} of the other user's requests were answered wrong")
        if unready := sum(found[5] for found in results[name]):
            wrong.append(f"{name}: /readyz was not 200 in {unready} answers")
        if options.short:
            continue
        if ratios[1] > 10:
            wrong.append(f"{name}: the other user's p99 is {ratios[1]:.1f} times what it is alone")
        if ready > 1:
            wrong.append(f"{name}: an answer of /readyz took {ready:.1f} s")
        if lost:
            wrong.append(f"{name}: {lost} of {tried} connects found the queue full {REPETITIONS + 1} times")
    return wrong
