import Foundation
import PaymentToken
import Refusals
import Testing

@Suite("Signing-time window")
struct SigningTimeWindowTests {
    private let signed = Date(timeIntervalSince1970: 1_700_000_000)

    @Test("The window is symmetric and its boundary inside", arguments: [0.0, 1, 299.5, 300, -1, -299.5, -300])
    func inside(age: Double) {
        #expect(throws: Never.self) {
            try SigningTimeWindow.within(.seconds(300)).check(signingTime: signed, now: signed.addingTimeInterval(age))
        }
    }

    @Test("Older and newer than the window is refused", arguments: [300.5, 301, 1e9, -300.5, -301, -1e9])
    func outside(age: Double) throws {
        let refusal = try refusal {
            try SigningTimeWindow.within(.seconds(300)).check(signingTime: signed, now: signed.addingTimeInterval(age))
        }
        #expect(refusal?.code == .signingTimeOutsideWindow)
    }

    @Test("Windows below a second and of days keep their length")
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

    @Test("Off lets every time pass")
    func off() {
        #expect(throws: Never.self) {
            try SigningTimeWindow.off.check(signingTime: signed, now: .distantFuture)
            try SigningTimeWindow.off.check(signingTime: signed, now: .distantPast)
        }
    }
}
