import Testing

@testable import Telemetry

@Suite("Log lines of an unbounded number of sources")
struct BoundedLinesTests {
    private let start = ContinuousClock.now

    private func address(_ name: String) -> String { name }

    @Test("writes one line in ten seconds for an address, and the number of omitted lines in the next")
    func oneLinePerAddress() {
        let lines = BoundedLines<String>()
        #expect(lines.next(from: address("192.0.2.1"), now: start) == .own(leftOut: 0))
        for second in 0..<9 { #expect(lines.next(from: address("192.0.2.1"), now: start + .seconds(second)) == nil) }
        #expect(lines.next(from: address("192.0.2.2"), now: start + .seconds(9)) == .own(leftOut: 0), "another address")
        #expect(lines.next(from: address("192.0.2.1"), now: start + .seconds(10)) == .own(leftOut: 9))
        #expect(lines.next(from: address("192.0.2.1"), now: start + .seconds(19)) == nil)
        #expect(lines.next(from: address("192.0.2.1"), now: start + .seconds(20)) == .own(leftOut: 1))
    }

    @Test("writes a bounded number of lines for any number of addresses")
    func anyNumberOfAddresses() {
        let lines = BoundedLines<String>()
        func count(_ now: ContinuousClock.Instant) -> Int {
            (0..<10_000).count { lines.next(from: address("\($0)"), now: now) != nil }
        }
        #expect(count(start) == BoundedLines<String>.maximumSources + 1)
        #expect(count(start + .seconds(9)) == 0)
        #expect(count(start + .seconds(10)) == BoundedLines<String>.maximumSources + 1)
        #expect(lines.next(from: address("new"), now: start + .seconds(20)) == .own(leftOut: 0))
        // The entries of sources without a recent line are free for other sources.
        #expect(count(start + .seconds(30)) == BoundedLines<String>.maximumSources + 1)
    }
}
