public import Foundation
public import Refusals

/// How far a payment token's signing time may lie from the present: Apple's step 1, last point. An old signature may be
/// a replay; one from the future means that a clock is wrong.
public enum SigningTimeWindow: Sendable, Equatable {
    /// Every signing time is accepted.
    case off
    /// At most this much older or newer than the present; the boundary itself is inside.
    case within(Duration)

    /// - Parameter now: the present, or the time that stands in for it.
    /// - Throws: `signing_time_outside_window`.
    public func check(signingTime: Date, now: Date) throws(Refusal) {
        guard case .within(let limit) = self else { return }
        let age = now.timeIntervalSince(signingTime)
        guard abs(age) <= limit / .seconds(1) else {
            throw Refusal(
                .signingTimeOutsideWindow,
                "The payment token was signed too long ago or in the future; ask the customer to pay again, and check this "
                    + "host's clock.",
                details: "signed \(Int(abs(age).rounded())) s \(age < 0 ? "after" : "before") the present, "
                    + "\(Int((limit / .seconds(1)).rounded())) s are allowed")
        }
    }
}

extension SigningTimeWindow: CustomStringConvertible {
    /// How far to either side; nil when it is off.
    public var duration: Duration? {
        switch self {
        case .off: nil
        case .within(let duration): duration
        }
    }

    /// `off`, or seconds as the configuration would spell them: `300s`.
    public var description: String {
        duration.map { "\($0.components.seconds)s" } ?? "off"
    }
}
