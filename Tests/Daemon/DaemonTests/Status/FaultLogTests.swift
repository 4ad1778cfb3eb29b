import Logging
import Synchronization
import Testing

@testable import Daemon

/// What the log says of faults, at times that the test makes.
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

        /// Of the last line; nil when it has none.
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

    @Test("a fault is logged at once, then every ten seconds with how often, and once when it has ended")
    func lasting() {
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

    @Test("a fault that comes and goes is one fault until it has stayed away for a second")
    func flapping() {
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

    @Test("an outage has ended with the first success, though no other request comes")
    func outage() {
        faults.began("ledger", "server away")
        clock.pass(.milliseconds(600))
        faults.began("ledger", "server away")
        clock.pass(.milliseconds(400))
        faults.ended("ledger")
        #expect(lines.taken() == ["unavailable 1", "available again -"])
        faults.ended("ledger")
        #expect(lines.taken().isEmpty)
    }

    @Test("reasons that differ with each request take no more lines than one reason, and every request is counted once")
    func changingReasons() {
        for waiting in 0..<100 { faults.began("hsm", "\(1024 + waiting) calls wait") }
        #expect(lines.taken() == ["unavailable 1"])
        // Two reasons in turn, through five pauses.
        for second in 1...50 {
            clock.pass(.seconds(1))
            faults.began("hsm", second.isMultiple(of: 2) ? "overloaded" : "hangs")
        }
        // The 99 of before are in the first of them, and no other.
        #expect(lines.taken() == ["unavailable 109"] + Array(repeating: "unavailable 10", count: 4))
        #expect(lines.lastReason == "overloaded")
    }

    @Test("another component's fault is another fault, and logged at once")
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

    @Test("what never had a fault is not available again")
    func quiet() {
        faults.ended("ledger")
        clock.pass(.seconds(2))
        faults.ended("ledger")
        #expect(lines.taken().isEmpty)
    }
}
