"""Measures POST /v1/decrypt against a running paytokend.

Called by `scripts/soak throughput`. Python's standard library only. Each client is a process with one keep-alive
connection that sends its next request when the answer is there; requests are made before the clock starts.
"""
import argparse
import json
import multiprocessing
import socket
import sys
import time


def requests(file):
    for number, line in enumerate(file):
        body = b'{"token":' + line.strip() + b',"reference":"soak-%d"}' % number
        yield (b"POST /v1/decrypt HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               b"Content-Length: %d\r\n\r\n" % len(body)) + body


def receive(connection):
    received = connection.recv(65536)
    if not received:
        raise ConnectionError("the daemon closed the connection")
    return received


def exchange(connection, request):
    """Status and body of one answer on a keep-alive connection."""
    connection.sendall(request)
    received = receive(connection)
    while b"\r\n\r\n" not in received:
        received += receive(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += receive(connection)
    return int(head[9:12]), body


def client(path, own, start, seconds, pipe):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    times, refusals = [], {}
    start.wait(60)
    until = time.monotonic() + seconds
    for request in own:
        began = time.monotonic()
        if began >= until:
            break
        status, body = exchange(connection, request)
        times.append(time.monotonic() - began)
        if status != 200:
            code = json.loads(body).get("code", str(status))
            refusals[code] = refusals.get(code, 0) + 1
    pipe.send((times, refusals, time.monotonic()))


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--tokens", required=True, help="tokens as JSON, one a line")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--raw", type=float, nargs=2, required=True, help="what raw-loop printed")
    options = parser.parse_args()

    context = multiprocessing.get_context("fork")
    with open(options.tokens, "rb") as file:
        prepared = list(requests(file))
    start = context.Barrier(options.clients + 1)
    pipes = []
    for index in range(options.clients):
        near, far = context.Pipe()
        own = prepared[index::options.clients]
        context.Process(target=client, args=(options.socket, own, start, options.seconds, far)).start()
        far.close()
        pipes.append(near)
    start.wait(60)
    began = time.monotonic()
    times, refusals, end = [], {}, began
    for pipe in pipes:
        try:
            own, refused, ended = pipe.recv()
        except EOFError:
            sys.exit("throughput: a client failed")
        times += own
        end = max(end, ended)
        for code, count in refused.items():
            refusals[code] = refusals.get(code, 0) + count
    if not times:
        sys.exit("throughput: there were no tokens")
    times.sort()
    rate = len(times) / (end - began)
    print(f"requests            {len(times)} in {end - began:.1f} s from {options.clients} clients"
          f" ({len(prepared)} tokens were minted before)")
    print(f"throughput          {rate:.0f}/s")
    print(f"latency             p50 {percentile(times, 0.5):.2f} ms, p99 {percentile(times, 0.99):.2f} ms,"
          f" longest {times[-1] * 1000:.1f} ms")
    raw, copied = options.raw
    print(f"raw HSM loop        {raw:.0f}/s ({copied:.0f}/s on a session copy of the key)")
    print(f"ratio               {rate / raw:.2f} of the raw loop ({rate / copied:.2f} of the one on a session copy)")
    for code, count in sorted(refusals.items()):
        print(f"refused             {count} {code}")
    return 1 if refusals else 0


if __name__ == "__main__":
    sys.exit(main())
