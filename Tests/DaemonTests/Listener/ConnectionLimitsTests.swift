import NIOEmbedded
import Testing

@testable import Daemon

@Suite("Places at a socket")
struct ConnectionLimitsTests {
    private let limits = ConnectionLimits(
        ConnectionLimits.Maximum(total: 6, perUID: 3, reserved: 2), ownUID: 100)

    private func arrive(_ uid: UInt32) -> ConnectionLimits.Decision { limits.admit(EmbeddedChannel(), uid: uid) }

    @Test("one uid gets its own places and no more")
    func eachUID() {
        #expect((0..<4).map { _ in arrive(1000) } == [.serve, .serve, .serve, .refuse])
        #expect(arrive(1001) == .serve)
    }

    @Test("when the others have taken every place, root and the daemon's own user still get in")
    func reserved() {
        for uid: UInt32 in [1000, 1000, 1000, 1001, 1001, 1001] { #expect(arrive(uid) == .serve) }
        #expect(arrive(1002) == .refuse)
        #expect(arrive(0) == .serve)
        #expect(arrive(100) == .serve)
        #expect(arrive(0) == .refuse)
    }

    @Test("a place is free again when its connection ends")
    func departure() {
        let channels = (0..<3).map { _ in EmbeddedChannel() }
        for channel in channels { #expect(limits.admit(channel, uid: 1000) == .serve) }
        #expect(arrive(1000) == .refuse)
        limits.release(channels[1], uid: 1000, decision: .serve)
        #expect(arrive(1000) == .serve)
    }
}
