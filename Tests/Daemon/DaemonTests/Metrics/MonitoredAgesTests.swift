import AuditChain
import Foundation
import Testing

@testable import Daemon
@testable import HostSystem

/// Metrics whose values the daemon computes when they are read, such as ages.
@Suite struct MonitoredAgesTests {
    private static let noon = Date(timeIntervalSince1970: 1_800_000_000)

    private func age(sealed sequence: Int?, minutesAgo: Double = 0, recorded: Int, startedMinutesAgo: Double = 60)
        throws
        -> Double
    {
        let node = try #require(AuditNode("node-1"))
        let sealed = try sequence.map { sequence in
            let head = try #require(ChainHead(node: node, sequence: sequence, hash: .of([UInt8(1)])))
            return try #require(
                head.checkpoint(at: AuditTime(Self.noon.addingTimeInterval(-minutesAgo * 60)), keyId: .of([UInt8(2)])))
        }
        return MonitoringRoutes.checkpointAge(
            of: sealed, recorded: recorded, startedAt: Self.noon.addingTimeInterval(-startedMinutesAgo * 60),
            now: Self.noon)
    }

    @Test("reports an audit checkpoint's age if there are later records, and 0 if it seals all records")
    func ageOfCheckpoint() throws {
        #expect(try age(sealed: 10, minutesAgo: 5, recorded: 10) == 0)
        #expect(try age(sealed: 10, minutesAgo: 5, recorded: 11) == 300)
        #expect(try age(sealed: 10, minutesAgo: 24 * 60, recorded: 11) == 86_400)
        #expect(try age(sealed: 10, minutesAgo: -5, recorded: 11) == 0, "of the future, when the clock was set back")
    }

    @Test("counts the age from the start if there is a record but no audit checkpoint yet")
    func noCheckpoint() throws {
        #expect(try age(sealed: nil, recorded: 0) == 0)
        #expect(try age(sealed: nil, recorded: 1, startedMinutesAgo: 2) == 120)
    }

    @Test(
        "reads locked memory in the form of proc(5)",
        arguments: [
            ("Name:\tpaytokend\nVmLck:\t    2048 kB\nVmPin:\t       0 kB\n", 2_097_152),
            ("VmLck:\t       0 kB\n", 0), ("VmLck:\t      -4 kB\n", nil), ("VmLck:\t 4 MB\n", nil),
            ("VmPin:\t 4 kB\n", nil),
        ])
    func lockedMemory(status: String, bytes: Int?) {
        #expect(LockedMemory.bytes(ofStatus: status) == bytes)
    }

    @Test("reads this process's locked memory from the kernel")
    func thisProcess() {
        #expect(LockedMemory.bytes != nil)
    }
}
