import Locks
import Logging
import Testing

@testable import UsageRecording

/// Log lines for faults, at times that the test sets.
@Suite struct FaultLogTests {
    private final class Lines: LogHandler, Sendable {
        private let said = Mutex<[String]>([])
        private let reason = Mutex<String?>(nil)
        var logLevel: Logger.Level {
            get { .trace }
            set {}
        }
        var metadata: Logger.Metadata {
            get { [:] }
            set {}
        }
        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { nil }
            set {}
        }

        func log(event: LogEvent) {
            said.withLock { $0.append("\(event.message) \(event.metadata?["requests"] ?? "-")") }
            reason.withLock { $0 = event.metadata?["reason"]?.description }
        }

        /// The reason in the last line; nil if there is none.
        var lastReason: String? { reason.withLock { $0 } }

        func taken() -> [String] {
            said.withLock { said in
                defer { said = [] }
                return said
            }
        }
    }

    private let lines = Lines()
    private let clock = HandClock()
    private let faults: FaultLog

    init() {
        let (lines, clock) = (lines, clock)
        faults = FaultLog(logger: Logger(label: "test") { _ in lines }) { clock.now }
    }

    @Test("logs a fault at once, then every ten seconds with a count, and once at its end")
    func lastingFault() {
        for _ in 0..<100 { faults.began("ledger", "full") }
        #expect(lines.taken() == ["unavailable 1"])
        clock.pass(.seconds(10))
        faults.began("ledger", "full")
        #expect(lines.taken() == ["unavailable 100"])
        for _ in 0..<3 {
            faults.ended("ledger")
            clock.pass(.seconds(1))
        }
        #expect(lines.taken() == ["available again -"])
    }

    @Test("treats an intermittent fault as one until it has been absent for a second")
    func intermittentFault() {
        for _ in 0..<20 {
            faults.began("ledger", "full")
            #expect(faults.isOngoing("ledger"))
            clock.pass(.milliseconds(100))
            faults.ended("ledger")
            #expect(!faults.isOngoing("ledger"))
            clock.pass(.milliseconds(100))
        }
        #expect(lines.taken() == ["unavailable 1"])
        clock.pass(.seconds(1))
        faults.ended("ledger")
        #expect(lines.taken() == ["available again -"])
    }

    @Test("ends an outage with the first success, without another request")
    func outageEnds() {
        faults.began("ledger", "server away")
        clock.pass(.milliseconds(600))
        faults.began("ledger", "server away")
        clock.pass(.milliseconds(400))
        faults.ended("ledger")
        #expect(lines.taken() == ["unavailable 1", "available again -"])
        faults.ended("ledger")
        #expect(lines.taken().isEmpty)
    }

    @Test("writes no more lines for varying reasons than for one, and counts every request once")
    func changingReasons() {
        for waiting in 0..<100 { faults.began("hsm", "\(1024 + waiting) calls wait") }
        #expect(lines.taken() == ["unavailable 1"])
        // Two reasons alternate for 50 seconds, in which the log may write five lines.
        for second in 1...50 {
            clock.pass(.seconds(1))
            faults.began("hsm", second.isMultiple(of: 2) ? "overloaded" : "hangs")
        }
        // The first of these lines also counts the 99 earlier requests that no line has counted yet.
        #expect(lines.taken() == ["unavailable 109"] + Array(repeating: "unavailable 10", count: 4))
        #expect(lines.lastReason == "overloaded")
    }

    @Test("logs another component's fault separately and at once")
    func anotherComponent() {
        faults.began("ledger", "full")
        faults.began("ledger", "read-only")
        faults.began("token", "gone")
        #expect(lines.taken() == ["unavailable 1", "unavailable 1"])
        clock.pass(.seconds(10))
        faults.began("ledger", "read-only")
        #expect(lines.taken() == ["unavailable 2"])
        #expect(lines.lastReason == "read-only")
    }

    @Test("logs no recovery without a fault")
    func noRecoveryWithoutFault() {
        faults.ended("ledger")
        clock.pass(.seconds(2))
        faults.ended("ledger")
        #expect(lines.taken().isEmpty)
    }
}
