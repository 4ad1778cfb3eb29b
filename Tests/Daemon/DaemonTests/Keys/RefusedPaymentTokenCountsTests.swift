import Foundation
import PaymentToken
import Testing

@testable import Daemon

@Suite("Refused payment tokens that name a key")
struct RefusedPaymentTokenCountsTests {
    private let noon = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("counts arrivals by key over the last hour, to the minute")
    func countsByKeyAndMinute() {
        let arrivals = RefusedPaymentTokenCounts()
        let (one, other) = (
            PublicKeyHash.of(subjectPublicKeyInfo: [1]), PublicKeyHash.of(subjectPublicKeyInfo: [2])
        )
        for minutes in [0.0, 0, 1, 30, 59] { arrivals.count(one, at: noon.addingTimeInterval(60 * minutes)) }
        #expect(arrivals.lastHour(one, now: noon.addingTimeInterval(59 * 60)) == 5)
        #expect(arrivals.lastHour(one, now: noon.addingTimeInterval(60 * 60)) == 3)
        #expect(arrivals.lastHour(one, now: noon.addingTimeInterval(119 * 60)) == 0)
        #expect(arrivals.lastHour(other, now: noon) == 0)
    }

    @Test("forgets arrivals older than the last hour, and keeps that hour")
    func forgetsAfterAnHour() {
        let arrivals = RefusedPaymentTokenCounts()
        let key = PublicKeyHash.of(subjectPublicKeyInfo: [1])
        for minute in 0..<3000 { arrivals.count(key, at: noon.addingTimeInterval(60 * Double(minute))) }
        #expect(arrivals.lastHour(key, now: noon.addingTimeInterval(60 * 2999)) == 60)
    }
}
