import Crypto
import Foundation
import GooglePayToken
import Refusals
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// A forge, a merchant, and payment tokens between them at a fixed time.
enum Fixture {
    static let forge = GooglePayForge()
    static let merchantKey = P256.KeyAgreement.PrivateKey()
    static let merchant = "12345678901234567890"
    static let recipient = "merchant:\(merchant)"
    static let now = Date(timeIntervalSince1970: 1_800_000_000)
    static let tomorrow = now.addingTimeInterval(86_400)

    static func envelope(by forge: GooglePayForge = forge, expiration: Date = tomorrow) throws -> GooglePayEnvelope {
        try forge.mint(
            GooglePayForge.plaintext(expiring: tomorrow), to: merchantKey.publicKey, recipient: recipient,
            expiration: expiration)
    }

    /// The code of the refusal, or `ok`.
    static func verdict(
        _ json: String, for merchant: String = merchant, under roots: [UInt8]? = nil, at now: Date = now
    ) throws -> String {
        do {
            _ = try verified(json, for: merchant, under: roots, at: now)
            return "ok"
        } catch let refusal as Refusal {
            return refusal.code.rawValue
        }
    }

    static func verified(
        _ json: String, for merchant: String = merchant, under roots: [UInt8]? = nil, at now: Date = now
    ) throws -> (GooglePayToken, GoogleRootKey) {
        guard let value = try? JSONValue(parsing: json) else {
            throw Refusal(.malformedToken, "The daemon parses the request, with the payment token in it.")
        }
        let paymentToken = try GooglePayToken(json: value)
        guard let merchant = GooglePayMerchant(merchant) else { throw Refusal(.malformedRequest, "merchant") }
        let roots = try GoogleRootKeys(parsing: roots ?? forge.rootKeys(expiration: tomorrow))
        return (paymentToken, try paymentToken.verify(for: merchant, under: roots, at: now))
    }

    /// The verdict of `open-google-pay`, which shares no code with the product: the code, or `ok` with SHA-256 of signedMessage
    /// and, with a private key, of the plaintext.
    static func secondOpinion(
        _ json: [UInt8], for merchant: String = merchant, under roots: [UInt8]? = nil, at now: Date = now,
        key: String? = nil
    ) async throws -> [String] {
        let directory = try FreshDirectory()
        let files = [
            try directory.write(json, to: "token"),
            try directory.write(roots ?? forge.rootKeys(expiration: tomorrow), to: "roots"),
        ]
        let key = try key.map { [try directory.write(Array($0.utf8), to: "key.pem")] } ?? []
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "open-google-pay").path
        let result = try await RunningProgram(
            "/usr/bin/env", ["python3", script] + files + ["merchant:\(merchant)", GooglePayText.time(now)] + key
        ).result()
        guard result.status == 0 else { throw ProgramFailure.notFound("\(result)") }
        return result.output.split(whereSeparator: \.isWhitespace).map(String.init)
    }
}

/// One change of a genuine payment token.
struct Change: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let json: @Sendable (GooglePayEnvelope) throws -> String

    /// A change of the text.
    init(_ description: String, text: @escaping @Sendable (GooglePayEnvelope) throws -> String) {
        (testDescription, json) = (description, text)
    }

    /// A change of the envelope's texts, which are then not signed again.
    init(_ description: String, _ change: @escaping @Sendable (inout GooglePayEnvelope) throws -> Void) {
        testDescription = description
        json = { envelope in
            var envelope = envelope
            try change(&envelope)
            return envelope.json
        }
    }
}
