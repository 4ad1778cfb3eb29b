"""A device in the router of a network, which passes packets on late, holds them for a while, or ends their connections.

The router sends the packets between some hosts to the device (a tun), and routes what comes back as usual, so that connections that
exist are disturbed as well. The device keeps the packets of each direction in order. It ends a connection with resets to both sides
after a random part of a segment. Each line of its standard input has new settings, and is answered with the counts under the old ones.
"""
import collections
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import sys
import time

DEVICE, SET_NAME, TUN_WITHOUT_HEAD = "/dev/net/tun", 0x400454CA, 0x1001
TCP, RESET, RESET_AND_ACKNOWLEDGE = 6, 0x04, 0x14
# The head of a segment after its ports: sequence, acknowledged sequence, length, flags, window, checksum, urgent pointer.
HEAD = struct.Struct("!IIBBHHH")
COUNTED = ("late", "held", "reset")


def checksum(content):
    """Returns the Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(content) // 2}H", content[:len(content) & ~1]))
    total += content[-1] << 8 if len(content) & 1 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Segment:
    """A packet of TCP over IPv4."""

    def __init__(self, packet):
        self.head = (packet[0] & 15) * 4
        self.packet, self.content = packet, self.head + (packet[self.head + 12] >> 4) * 4
        self.size = len(packet) - self.content

    def _packet(self, source, target, segment):
        """Returns a packet between these addresses with this segment, and the right lengths and checksums."""
        head = bytearray(self.packet[:12]) + source + target
        head[0], head[2:4], head[10:12] = 0x45, struct.pack("!H", 20 + len(segment)), bytes(2)
        head[10:12] = struct.pack("!H", checksum(head))
        segment[16:18] = bytes(2)
        segment[16:18] = struct.pack("!H", checksum(source + target + struct.pack("!HH", TCP, len(segment)) + segment))
        return bytes(head + segment)

    def first(self, count):
        """Returns the packet with only its first `count` bytes of content."""
        return self._packet(self.packet[12:16], self.packet[16:20], bytearray(self.packet[self.head:self.content + count]))

    def resets(self, count):
        """Returns the resets to its receiver, which has its first `count` bytes of content, and to its sender."""
        source, target, ports = self.packet[12:16], self.packet[16:20], self.packet[self.head:self.head + 4]
        sequence, acknowledged = struct.unpack_from("!II", self.packet, self.head + 4)
        forward = ports + HEAD.pack((sequence + count) & 0xFFFFFFFF, acknowledged, 0x50, RESET_AND_ACKNOWLEDGE, 0, 0, 0)
        back = ports[2:] + ports[:2] + HEAD.pack(acknowledged, 0, 0x50, RESET, 0, 0, 0)
        return self._packet(source, target, bytearray(forward)), self._packet(target, source, bytearray(back))


class Device:
    """settings: delay and its random part, share of the packets at which a direction is held, seconds for which it is, share of the
    segments with content that end their connection, and the most holds and ends together."""

    def __init__(self, name):
        self.device = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.device, SET_NAME, struct.pack("16sH22x", name.encode(), TUN_WITHOUT_HEAD))
        self.waiting, self.order, self.latest = [], itertools.count(), {}
        self.chance, self.settings, self.counts = random.Random(), [0.0] * 6, collections.Counter()

    def set(self, seed, *settings):
        """Returns the counts since the last call. All packets that wait are passed on at once."""
        counts, self.counts = [self.counts[name] for name in COUNTED], collections.Counter()
        self.chance, self.settings = random.Random(seed), list(map(float, settings))
        self.waiting, self.latest = sorted((0.0, number, packet) for _, number, packet in self.waiting), {}
        return counts

    def _take(self, packet, now):
        delay, more, holds, held, resets, most = self.settings
        due = now + delay + self.chance.uniform(0, more)
        may_disturb = self.counts["held"] + self.counts["reset"] < most
        if may_disturb and self.chance.random() < holds:
            self.counts["held"] += 1
            due += held
        direction = packet[12:20]
        due = self.latest[direction] = max(due, self.latest.get(direction, 0.0))
        self.counts["late"] += due > now
        packets = [(due, packet)]
        if may_disturb and packet[9] == TCP and (segment := Segment(packet)).size and self.chance.random() < resets:
            self.counts["reset"] += 1
            count = self.chance.randrange(segment.size)
            forward, back = segment.resets(count)
            packets = [(due, segment.first(count)), (due, forward), (due, back)]
        for moment, each in packets:
            heapq.heappush(self.waiting, (moment, next(self.order), each))

    def serve(self):
        while True:
            limit = max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else None
            ready = select.select([self.device, 0], [], [], limit)[0]
            if 0 in ready:
                line = os.read(0, 4096)
                if not line:
                    return
                print(*self.set(*line.decode().split()), flush=True)
            now = time.monotonic()
            try:
                while self.device in ready:
                    packet = os.read(self.device, 65536)
                    # Other packets than IPv4's belong to no pair.
                    if packet[0] >> 4 == 4:
                        self._take(packet, now)
            except BlockingIOError:
                pass
            while self.waiting and self.waiting[0][0] <= now:
                os.write(self.device, heapq.heappop(self.waiting)[2])


if __name__ == "__main__":
    there = Device(sys.argv[1])
    print("ready", flush=True)
    there.serve()
