public import Foundation
public import PaymentToken
public import Refusals
internal import StrictJSON

/// The decrypted content of a Google Pay token: one JSON object.
///
/// Only the values that decide on the release are read here. The caller gets the decrypted bytes as Google wrote them,
/// so members that are not known here are permitted.
public struct GooglePayPayload: Sendable {
    /// The kind of the card's number (`authMethod`).
    public enum AuthMethod: String, Sendable, CaseIterable {
        /// The number of the card itself. No cryptogram proves that the cardholder took part.
        case panOnly = "PAN_ONLY"
        /// The number of a device, with a cryptogram of 3-D Secure.
        case cryptogram3DS = "CRYPTOGRAM_3DS"
    }

    /// The longest ``messageId``, in bytes. Real ones have 140.
    public static let maximumMessageIdSize = 1_024

    /// The time from which the message must not be released any more.
    public let messageExpiration: Date
    /// Google's identifier of the message: 1 to ``maximumMessageIdSize`` visible ASCII characters.
    public let messageId: String
    public let authMethod: AuthMethod

    /// - Parameter plaintext: the bytes that the merchant key opened. A signature of Google's covers them.
    /// - Throws: `malformed_token` with the member's name in `details`, unless `plaintext` is one strict JSON object
    ///   with the members of a card payment.
    public init(plaintext: [UInt8]) throws(Refusal) {
        let path = "paymentData"
        let json: JSONValue
        do {
            json = try JSONValue(parsing: plaintext)
        } catch {
            // The error contains an offset and no bytes of the text.
            throw .malformedToken("\(path) is not strict JSON: \(error)", specifiedBy: "Google")
        }
        let payload = try PaymentTokenMembers(json, path: path, specifiedBy: "Google")
        messageExpiration = try payload.read("messageExpiration", GoogleForm.time, decode: GoogleForm.time(in:))
        messageId = try payload.read(
            "messageId", "a string of 1 to \(Self.maximumMessageIdSize) visible ASCII characters"
        ) { text in
            (1...Self.maximumMessageIdSize).contains(text.utf8.count) && text.utf8.allSatisfy(\.isVisibleASCII)
                ? text : nil
        }
        _ = try payload.read("paymentMethod", "CARD") { text in text.utf8.elementsEqual("CARD".utf8) ? text : nil }

        let details = try payload.members("paymentMethodDetails")
        authMethod = try details.read(
            "authMethod", AuthMethod.allCases.map(\.rawValue).joined(separator: " or "),
            decode: AuthMethod.init(rawValue:))
        _ = try details.read("pan", "a string of 8 to 19 digits") { text in
            (8...19).contains(text.utf8.count) && text.utf8.allSatisfy(\.isDigit) ? text : nil
        }
        if authMethod == .cryptogram3DS {
            _ = try details.read("cryptogram", "a string that is not empty") { text in text.isEmpty ? nil : text }
        }
    }
}

/// The payload contains the card's number, so it is never printed.
extension GooglePayPayload: Unprintable {}

extension UInt8 {
    fileprivate var isVisibleASCII: Bool { (UInt8(ascii: "!")...UInt8(ascii: "~")).contains(self) }
    fileprivate var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
}

/// The times of one message, which decide on its first release.
///
/// Google writes no time at which a message was signed. The ledger compares signing times with the times of forgotten
/// claims and of restores, so a message gets one here: its expiration minus the lifetime that Google gives messages.
/// If that lifetime is configured too long, the signing time is too early, and more messages are refused after a
/// restore. If it is too short, the signing time is too late: every new message is refused as signed in the future, but
/// an old one may count as signed after its own claim was forgotten. The configuration therefore permits no lifetime
/// shorter than what Google is known to give.
public struct GooglePayMessageTimes: Sendable, Equatable {
    /// A reason for which a message is not released for the first time.
    public enum Fault: Sendable, Equatable {
        /// The time is ``expiration`` or later.
        case expired
        /// The signing time is later than the present by more than the window.
        case signedInFuture
    }

    public let expiration: Date
    /// The time at which the message counts as signed.
    public let signedAt: Date

    /// - Parameter lifetime: the time from a message's signature to its expiration, `google_pay.message_lifetime`.
    public init(expiration: Date, lifetime: Duration) {
        self.expiration = expiration
        signedAt = expiration.addingTimeInterval(-(lifetime / .seconds(1)))
    }

    /// - Parameters:
    ///   - now: the present by the daemon's clock.
    ///   - window: the signing-time window; nil if it is off.
    /// - Returns: nil if the message may be released for the first time.
    public func fault(at now: Date, window: Duration?) -> Fault? {
        if now >= expiration { return .expired }
        guard let window else { return nil }
        return signedAt > now.addingTimeInterval(window / .seconds(1)) ? .signedInFuture : nil
    }
}
