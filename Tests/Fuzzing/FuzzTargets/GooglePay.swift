import Crypto
import Foundation
import GooglePayToken
import StrictJSON
import TokenForge

extension FuzzTarget {
    /// A payment token of Google Pay. Random bytes would end at the signatures, so that half of the inputs change a genuine one.
    ///
    /// The input's first octet: if it is even, the rest is a payment token's JSON, or a plaintext's. If it is odd, the rest changes the text of
    /// a genuine payment token: four octets for each change, which are its kind, its position in 65,536ths, and its value.
    static let googlePayToken = FuzzTarget(
        name: "google-pay-token", longest: 4096,
        sources: [
            "GooglePayToken", "PaymentToken/PaymentTokenMembers.swift", "StrictJSON", "Encodings/Encodings.swift",
        ]
    ) { input in
        let rest = Array(input.dropFirst())
        if input.first.map({ $0 & 1 == 0 }) ?? true {
            try checkForm(of: rest)
            try checkPlaintext(rest)
        } else {
            try await GooglePay.shared.get().check(changes: rest)
        }
    }

    /// What is accepted must be what the text says, in its only spelling, and the same as a string.
    private static func checkForm(of text: [UInt8]) throws {
        guard let json = try? JSONValue(parsing: text), let paymentToken = try? GooglePayToken(json: json) else {
            return
        }
        let string = try? GooglePayToken(json: .string(json.stringValue ?? String(decoding: text, as: UTF8.self)))
        try expect(string == paymentToken, "the object and the string with it differ")
        let outer = json.stringValue.flatMap { try? JSONValue(parsing: $0) } ?? json
        let signedMessage = outer.objectValue?["signedMessage"]?.stringValue ?? ""
        try expect(paymentToken.signedMessage == Array(signedMessage.utf8), "signedMessage is not the text's")
        let inner = (try JSONSerialization.jsonObject(with: Data(signedMessage.utf8)) as? [String: Any]) ?? [:]
        try expect(inner.count == 3, "signedMessage has other members")
        for (name, bytes) in [
            ("encryptedMessage", paymentToken.encryptedMessage),
            ("ephemeralPublicKey", paymentToken.ephemeralPublicKey),
            ("tag", paymentToken.tag),
        ] {
            try expect(inner[name] as? String == Data(bytes).base64EncodedString(), "\(name) is not the text's base64")
        }
        try expect(
            (try? P256.KeyAgreement.PublicKey(x963Representation: paymentToken.ephemeralPublicKey)) != nil,
            "the ephemeral public key is not on the curve")
        for text in [outer.objectValue?["signature"]] + signatures(of: outer) {
            let signature = text?.stringValue ?? ""
            try expect(
                Data(base64Encoded: signature)?.base64EncodedString() == signature, "a signature is not strict base64")
        }
    }

    /// Checks that the members read of a plaintext are those that it has.
    private static func checkPlaintext(_ text: [UInt8]) throws {
        guard let payload = try? GooglePayPayload(plaintext: text) else { return }
        let members = (try JSONSerialization.jsonObject(with: Data(text)) as? [String: Any]) ?? [:]
        let details = members["paymentMethodDetails"] as? [String: Any]
        try expect(members["messageId"] as? String == payload.messageId, "messageId is not the text's")
        try expect(details?["authMethod"] as? String == payload.authMethod.rawValue, "authMethod is not the text's")
        let milliseconds = (members["messageExpiration"] as? String).flatMap { Double($0) }
        // A Date counts from 2001, so times near 1970 lose the last binary digits.
        try expect(
            milliseconds.map { abs($0 / 1_000 - payload.messageExpiration.timeIntervalSince1970) < 0.000_5 } == true,
            "messageExpiration is not the text's")
    }

    private static func signatures(of token: JSONValue) -> [JSONValue?] {
        token.objectValue?["intermediateSigningKey"]?.objectValue?["signatures"]?.arrayValue ?? []
    }
}

/// The forge and one genuine payment token of a run.
private struct GooglePay: Sendable {
    static let shared = Result { try GooglePay() }

    private let text: [UInt8]
    private let genuine: GooglePayToken
    private let roots: GoogleRootKeys
    private let merchant: GooglePayMerchant
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    init() throws {
        let forge = GooglePayForge()
        text = Array(
            try forge.mint(
                GooglePayForge.plaintext(expiring: now.addingTimeInterval(60)),
                to: P256.KeyAgreement.PrivateKey().publicKey, recipient: "merchant:BCR2",
                expiration: now.addingTimeInterval(60)
            ).json.utf8)
        genuine = try GooglePayToken(json: JSONValue(parsing: text))
        roots = try GoogleRootKeys(parsing: forge.rootKeys(expiration: now.addingTimeInterval(60)))
        guard let merchant = GooglePayMerchant("BCR2") else { throw Disagreement("BCR2 is no merchant") }
        self.merchant = merchant
    }

    func check(changes: [UInt8]) async throws {
        var changed = text
        for change in stride(from: 0, to: changes.count - 3, by: 4) where !changed.isEmpty {
            let position = (Int(changes[change + 1]) << 8 | Int(changes[change + 2])) * changed.count / 65_536
            switch changes[change] % 4 {
            case 0: changed[position] ^= changes[change + 3] | 1
            case 1: changed.remove(at: position)
            case 2: changed.insert(changes[change + 3], at: position)
            default: changed.swapAt(position, Int(changes[change + 3]) * changed.count / 256)
            }
        }
        guard let json = try? JSONValue(parsing: changed), let paymentToken = try? GooglePayToken(json: json),
            (try? paymentToken.verify(for: merchant, under: roots, at: now)) != nil
        else {
            try expect(changed != text, "a genuine payment token is refused")
            return
        }
        try expect(
            paymentToken.signedMessage == genuine.signedMessage
                && paymentToken.intermediateKey.key == genuine.intermediateKey.key
                && paymentToken.intermediateKey.expiration == genuine.intermediateKey.expiration,
            "a payment token is accepted with content that was not signed")
    }
}
