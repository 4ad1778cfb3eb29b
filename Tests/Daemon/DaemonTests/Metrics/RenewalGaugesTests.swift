import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import Testing

@testable import Daemon
@testable import Ledger

@Suite struct RenewalGaugesTests {
    private static let start = Date(timeIntervalSince1970: 1_800_000_000)
    private static let key = PublicKeyHash.of(subjectPublicKeyInfo: [0x30, 1])
    private static let labels: [3 of String] = ["m", "processing", "EC"]

    private let instruments = Instruments()

    /// An open renewal with these attempts.
    ///
    /// - Parameter attempts: for each, the seconds from the start to the attempt and to its answer.
    private func show(
        _ attempts: [(change: Renewal.Change, outcome: Renewal.Attempt.Outcome, at: Double, answered: Double?)]
    ) {
        let stored = StoredRenewal(
            identifier: .random(),
            renewal: Renewal(
                merchantIdentifier: "m", use: .processing, algorithm: .ec, newKey: Self.key,
                attempts: attempts.map { attempt in
                    .init(
                        change: attempt.change, number: 1, intendedAt: Self.start + attempt.at,
                        outcome: attempt.outcome, answeredAt: attempt.answered.map { Self.start + $0 })
                }),
            requesterUID: 0, requesterName: "root", startedAt: Self.start)
        RenewalGauges(instruments: instruments).show([stored])
    }

    @Test("shows the time of an open renewal's last attempt or answer, or of its start")
    func changed() {
        show([])
        #expect(instruments.renewalChanged.value(Self.labels) == 1_800_000_000)
        show([(.create, .intended, 60, nil)])
        #expect(instruments.renewalChanged.value(Self.labels) == 1_800_000_060)
        show([(.create, .accepted, 60, 62), (.activate, .refused, 90, 95)])
        #expect(instruments.renewalChanged.value(Self.labels) == 1_800_000_095)
    }

    @Test("shows the time of an activation that Apple has made or may have made, and of no other")
    func activated() {
        let labels: [2 of String] = [Self.key.hex, "m"]
        for (outcome, time) in [
            (Renewal.Attempt.Outcome.accepted, 1_800_000_095.0), (.unknown, 1_800_000_095), (.refused, nil),
            (.notSent, nil),
        ] {
            show([(.create, .accepted, 60, 62), (.activate, outcome, 90, 95)])
            #expect(instruments.renewalActivated.value(labels) == time)
        }
    }

    @Test("shows nothing of a renewal that has ended")
    func ended() {
        show([(.activate, .accepted, 90, 95)])
        RenewalGauges(instruments: instruments).show([])
        #expect(instruments.renewalChanged.value(Self.labels) == nil)
        #expect(instruments.renewalActivated.value([Self.key.hex, "m"]) == nil)
    }
}
