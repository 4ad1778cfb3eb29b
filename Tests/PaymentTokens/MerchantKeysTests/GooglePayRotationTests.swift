import Foundation
import KeyTypes
import PaymentToken
import Testing

@testable import MerchantKeys

@Suite("The times of a Google Pay key")
struct GooglePayRotationTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let day = 86_400.0

    private static func days(_ number: Double) -> Date { now.addingTimeInterval(number * day) }

    /// Days from now: the removal, the wanted cut-off, and the cut-off; nil if the key stops at once.
    @Test(
        "ends a removed key ten days after the removal, or when the operator says, but not before eight days",
        arguments: [
            (0, nil, 10), (-2, nil, 8), (-9.5, nil, 0.5), (-10, nil, nil), (-40, nil, nil),
            (0, 8, 8), (0, 60, 60), (-2, 6, 6), (-8, 0, nil), (-9, -1, nil), (-9, -0.5, nil),
        ] as [(Double, Double?, Double?)])
    func cutOff(removed: Double, wanted: Double?, expected: Double?) throws {
        let cutOff = try GooglePayRotation.cutOff(
            removedAt: Self.days(removed), wanted: wanted.map(Self.days), now: Self.now)
        #expect(cutOff == expected.map(Self.days))
    }

    @Test(
        "refuses a cut-off less than eight days after the removal, and a removal in the future",
        arguments: [(0, 7.999, 8), (-2, 5.999, 6), (-8, -0.001, 0)] as [(Double, Double, Double)])
    func tooEarly(removed: Double, wanted: Double, earliest: Double) {
        #expect(throws: GooglePayRotation.RemovalError.cutOffTooEarly(earliest: Self.days(earliest))) {
            try GooglePayRotation.cutOff(removedAt: Self.days(removed), wanted: Self.days(wanted), now: Self.now)
        }
        #expect(throws: GooglePayRotation.RemovalError.removedInFuture) {
            try GooglePayRotation.cutOff(
                removedAt: Self.now.addingTimeInterval(1), wanted: Self.days(wanted + 90), now: Self.now)
        }
    }

    @Test(
        "counts the quiet time from the last payment, and from the key's arrival if it was watched for less",
        arguments: [(-400, nil, -370), (-400, -29, 1), (-400, -31, -1), (-10, nil, 20), (-10, -3, 27)]
            as [(Double, Double?, Double)])
    func quiet(created: Double, lastUse: Double?, unused: Double) {
        #expect(
            GooglePayRotation.unused(
                watchedFrom: Self.days(created), lastUse: lastUse.map(Self.days), quiet: 30 * Self.day)
                == Self.days(unused))
    }

    private static func entry(
        _ number: UInt8, _ merchant: String, daysOld: Double, _ state: KeyState = .active, use: KeyUse = .googlePay
    ) -> KeyEntry {
        var entry = KeyEntry(
            publicKeyHash: .of(subjectPublicKeyInfo: [0x30, number]), merchantIdentifier: merchant, algorithm: .ec,
            use: use, state: state, cutOff: nil, condition: .served, certificate: nil, hsmTokens: ["primary"],
            warnings: [])
        entry.createdAt = days(-daysOld)
        return entry
    }

    @Test(
        "reminds of a key 60, 30 and 15 days before it is a year old, and from then on",
        arguments: [
            (304.9, nil), (305, 60), (334.9, 60), (335, 30), (349.9, 30), (350, 15), (364.9, 15), (365, 0), (900, 0),
        ] as [(Double, Int?)])
    func reminder(daysOld: Double, days: Int?) {
        let reminders = GooglePayRotation.reminders([Self.entry(1, "M", daysOld: daysOld)])
        #expect(reminders.map { $0.days(at: Self.now) } == [days])
    }

    @Test("reminds of the newest active Google Pay key of each merchant alone, the oldest first")
    func newest() {
        let reminders = GooglePayRotation.reminders([
            Self.entry(1, "A", daysOld: 500), Self.entry(2, "A", daysOld: 10), Self.entry(3, "B", daysOld: 100),
            Self.entry(4, "B", daysOld: 5, .preActivation), Self.entry(5, "B", daysOld: 3, .deactivated),
            Self.entry(6, "C", daysOld: 400, .suspended), Self.entry(7, "D", daysOld: 400, use: .processing),
        ])
        #expect(reminders.map(\.merchantIdentifier) == ["B", "A"])
        #expect(reminders.map(\.due) == [Self.days(265), Self.days(355)])
    }
}
