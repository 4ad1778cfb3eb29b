import Foundation
import Refusals
import Testing

@testable import PaymentToken

@Suite("The signing-time attribute, RFC 5652 §11.3")
struct SigningTimeTests {
    @Test(
        "Reads UTCTime for 1950 to 2049, and GeneralizedTime for other years",
        arguments: [
            (0x17, "151210174410Z", "2015-12-10T17:44:10Z"), (0x17, "491231235959Z", "2049-12-31T23:59:59Z"),
            (0x17, "500101000000Z", "1950-01-01T00:00:00Z"), (0x17, "700101000000Z", "1970-01-01T00:00:00Z"),
            (0x17, "000229120000Z", "2000-02-29T12:00:00Z"), (0x17, "000301000000Z", "2000-03-01T00:00:00Z"),
            (0x17, "240229235959Z", "2024-02-29T23:59:59Z"), (0x18, "20500101000000Z", "2050-01-01T00:00:00Z"),
            (0x18, "21000301000000Z", "2100-03-01T00:00:00Z"),
        ] as [(UInt8, String, String)])
    func accepted(tag: UInt8, text: String, time: String) throws {
        let expected = try Date(time, strategy: .iso8601)
        #expect(try SigningTime.date(of: encoding(tag, text)) == expected)
    }

    @Test(
        "Refuses any other form of time",
        arguments: [
            (0x18, "20260131120000Z"), (0x18, "20500101000000.5Z"), (0x17, "2601311200Z"), (0x17, "260131120000+0100"),
            (0x17, "260230120000Z"), (0x17, "261301120000Z"), (0x17, "260131240000Z"), (0x17, "260131120000"),
            (0x17, ""), (0x18, "2050010100Z"), (0x04, "260131120000Z"), (0x13, "260131120000Z"),
        ] as [(UInt8, String)])
    func refused(tag: UInt8, text: String) {
        #expect(throws: CMSDefect.self) { try SigningTime.date(of: encoding(tag, text)) }
    }

    private func encoding(_ tag: UInt8, _ text: String) -> ArraySlice<UInt8> {
        ([tag, UInt8(text.utf8.count)] + Array(text.utf8))[...]
    }
}

@Suite("Signing-time window")
struct SigningTimeWindowTests {
    private let signed = Date(timeIntervalSince1970: 1_700_000_000)

    @Test(
        "Accepts a signing time up to and including either boundary of the window",
        arguments: [0.0, 1, 299.5, 300, -1, -299.5, -300])
    func inside(age: Double) {
        #expect(throws: Never.self) {
            try SigningTimeWindow.within(.seconds(300)).check(signingTime: signed, now: signed.addingTimeInterval(age))
        }
    }

    @Test("Refuses a signing time older or newer than the window", arguments: [300.5, 301, 1e9, -300.5, -301, -1e9])
    func outside(age: Double) throws {
        let refusal = try refusal {
            try SigningTimeWindow.within(.seconds(300)).check(signingTime: signed, now: signed.addingTimeInterval(age))
        }
        #expect(refusal?.code == .signingTimeOutsideWindow)
    }

    @Test("Applies windows of less than a second and of days exactly")
    func lengths() throws {
        #expect(throws: Never.self) {
            try SigningTimeWindow.within(.milliseconds(500)).check(
                signingTime: signed, now: signed.addingTimeInterval(0.5))
            try SigningTimeWindow.within(.seconds(86_400)).check(
                signingTime: signed, now: signed.addingTimeInterval(86_400))
        }
        #expect(
            try refusal {
                try SigningTimeWindow.within(.milliseconds(500)).check(
                    signingTime: signed, now: signed.addingTimeInterval(0.75))
            } != nil)
    }

    @Test("Accepts every signing time when the window is off")
    func off() {
        #expect(throws: Never.self) {
            try SigningTimeWindow.off.check(signingTime: signed, now: .distantFuture)
            try SigningTimeWindow.off.check(signingTime: signed, now: .distantPast)
        }
    }
}
