import Testing

@testable import Gateway

@Suite("Requests per second")
struct RequestRateTests {
    private let start = ContinuousClock.now

    private func served(_ rates: RequestRates, _ client: String, _ count: Int, at offset: Duration) -> Int {
        (0..<count).count { _ in rates.secondsToWait(client, now: start + offset) == nil }
    }

    @Test("serves a burst at once, then at the allowed rate")
    func burst() {
        let rates = RequestRates(.init(perSecond: 10, burst: 30))
        #expect(served(rates, "a", 100, at: .zero) == 30)
        #expect(served(rates, "a", 100, at: .milliseconds(500)) == 5)
        #expect(served(rates, "a", 100, at: .seconds(1000)) == 30)
    }

    @Test("lets one client's flood take nothing from another")
    func apart() {
        let rates = RequestRates(.init(perSecond: 1, burst: 1))
        #expect(served(rates, "a", 1000, at: .zero) == 1)
        #expect(served(rates, "b", 1000, at: .zero) == 1)
    }

    @Test("returns the wait in whole seconds, long enough")
    func waits() {
        let rates = RequestRates(.init(perSecond: 1, burst: 1))
        #expect(rates.secondsToWait("a", now: start) == nil)
        #expect(rates.secondsToWait("a", now: start) == 1)
        #expect(rates.secondsToWait("a", now: start + .seconds(1)) == nil)
    }

    @Test("allows nothing more while the clock does not advance")
    func still() {
        let rates = RequestRates(.init(perSecond: 1000, burst: 2))
        #expect(served(rates, "a", 10, at: .zero) == 2)
        #expect(served(rates, "a", 10, at: .seconds(-5)) == 0)
    }
}
