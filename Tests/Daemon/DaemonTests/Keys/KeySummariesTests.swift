import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import Testing

@testable import Daemon
@testable import UsageRecording

@Suite("Keys as the API shows them")
struct KeySummariesTests {
    private static let now = RecordFixture.noon

    private static func keyRecord(
        _ number: UInt8, _ merchant: String, daysOld: Double, _ state: KeyState = .active, _ use: KeyUse = .googlePay
    ) -> KeyRecord {
        KeyRecord(
            publicKeyHash: .of(subjectPublicKeyInfo: [number]), merchantIdentifier: merchant, algorithm: .ec, use: use,
            state: state, createdAt: now.addingTimeInterval(-daysOld * 86_400), origin: .generated)
    }

    @Test("shows when each merchant's newest active Google Pay key is to be replaced, on whichever page the others are")
    func replacementDue() {
        let index = KeyIndex()
        index.rebuild(
            hsmTokens: [],
            keyRecords: [
                Self.keyRecord(1, "A", daysOld: 500), Self.keyRecord(2, "A", daysOld: 10),
                Self.keyRecord(3, "A", daysOld: 1, .preActivation), Self.keyRecord(4, "B", daysOld: 100),
                Self.keyRecord(5, "C", daysOld: 100, .suspended),
                Self.keyRecord(6, "merchant.com.example", daysOld: 100, .active, .processing),
            ])
        let due = [
            PublicKeyHash.of(subjectPublicKeyInfo: [2]).base64: Self.now.addingTimeInterval(355 * 86_400),
            PublicKeyHash.of(subjectPublicKeyInfo: [4]).base64: Self.now.addingTimeInterval(265 * 86_400),
        ]
        let summaries = KeySummaries(index: index, tier: { _, _ in nil }, clock: WallClock { Self.now })
        let entries = index.entries
        #expect(entries.count == 6)
        for length in 1...entries.count {
            let pages = stride(from: 0, to: entries.count, by: length).map { entries.dropFirst($0).prefix(length) }
            let shown = pages.flatMap { summaries.summaries(of: $0, heldBy: nil) }
            #expect(shown.map(\.publicKeyHash) == entries.map(\.publicKeyHash.base64))
            for summary in shown { #expect(summary.replacementDue == due[summary.publicKeyHash]) }
        }
        for entry in entries {
            #expect(summaries.summary(entry).replacementDue == due[entry.publicKeyHash.base64])
        }
    }
}
