import Encodings
import Foundation
import PaymentToken
import Refusals
import StrictJSON
import TokenForge
import X509

extension FuzzTarget {
    /// A payment token's JSON, up to its evidence. What is accepted must be what the text says.
    static let paymentToken = FuzzTarget(
        name: "payment-token", longest: 8192,
        sources: [
            "PaymentToken/PaymentToken.swift", "PaymentToken/Signature", "StrictJSON", "Encodings/Encodings.swift",
        ]
    ) { input in
        guard let json = try? JSONValue(parsing: input), let paymentToken = try? PaymentToken(json: json) else {
            return
        }
        let outer = json.objectValue
        let data = outer?["paymentData"]?.objectValue ?? outer
        try expect(
            paymentToken.encryptedData == data?["data"]?.stringValue.flatMap(foundationBase64),
            "the data is not the text's base64")
        try expect(
            paymentToken.signature == data?["signature"]?.stringValue.flatMap(foundationBase64),
            "the signature is not the text's base64")
        let identifier = data?["header"]?.objectValue?["transactionId"]?.stringValue
        try expect(
            paymentToken.transactionIdentifier.hex == identifier?.lowercased(), "the transactionId is not the text's")
        _ = try? paymentToken.restorationInput()
        _ = try? SignatureEvidence(of: paymentToken)
    }

    /// The bytes of a text that is the only base64 of them, apart from padding, as Foundation reads and writes it.
    private static func foundationBase64(_ text: String) -> [UInt8]? {
        let digits = text.prefix { $0 != "=" }
        let padding = String(repeating: "=", count: (4 - digits.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: digits + padding), data.base64EncodedString() == digits + padding else {
            return nil
        }
        return Array(data)
    }

    /// A payment token that TokenForge mints as the input says, and whose parts the input then changes. Random bytes would end
    /// at the signature; these have a genuine one.
    ///
    /// The input's octets: the wire form; the deviation; three octets for each change of the CMS message, which are its
    /// kind, its position in 256ths, and its value.
    static let forgedToken = FuzzTarget(
        name: "forged-token", longest: 32, sources: ["PaymentToken/Signature", "PaymentToken/PaymentToken.swift"]
    ) { input in
        let forge = try Forge.shared.get()
        let choices = Array(input.prefix(2)) + [UInt8](repeating: 0, count: max(0, 2 - input.count))
        let isRSA = choices[0] & 1 != 0
        let deviations = Deviation.allCases.filter { $0.applies(to: isRSA ? "RSA_v1" : "EC_v1") }
        let deviation = choices[1] == 0 ? nil : deviations[Int(choices[1]) % deviations.count]
        var wire = WireForm()
        wire.indefiniteLengths = choices[0] & 2 == 0
        wire.digestParametersNull = choices[0] & 4 == 0
        wire.algorithmProtection = choices[0] & 8 == 0
        wire.issuerFirst = choices[0] & 16 != 0
        wire.rsaEncryptionAlgorithm = choices[0] & 32 != 0
        let minted = try forge.mint.mint(
            TokenRecipe(
                merchant: isRSA ? forge.rsa : forge.ec,
                applicationData: choices[0] & 64 != 0 || deviation != nil ? [7] : nil,
                signingTime: forge.now, wire: wire, deviations: deviation.map { [$0] } ?? []))

        var signature = minted.signature
        for change in stride(from: 2, to: input.count - 2, by: 3) where !signature.isEmpty {
            let position = Int(input[change + 1]) * signature.count / 256
            switch input[change] % 4 {
            case 0: signature[position] ^= input[change + 2] | 1
            case 1: signature.remove(at: position)
            case 2: signature.insert(input[change + 2], at: position)
            default: signature.swapAt(position, Int(input[change + 2]) * signature.count / 256)
            }
        }
        let isChanged = signature != minted.signature
        var text = String(decoding: minted.paymentToken, as: UTF8.self)
        if isChanged {
            text = text.replacing(
                Data(minted.signature).base64EncodedString(), with: Data(signature).base64EncodedString())
        }

        let found = await forge.verdict(of: Array(text.utf8))
        switch found {
        case .success(let content):
            try expect(content == minted.signedContent, "a payment token is accepted with content that was not signed")
            try expect(
                isChanged || Forge.refusal(of: deviation) == nil,
                "\(deviation?.rawValue ?? "") is accepted")
        case .failure(let refusal):
            guard !isChanged else { return }
            try expect(
                refusal.code.rawValue == Forge.refusal(of: deviation),
                "\(deviation?.rawValue ?? "a genuine payment token") is refused with \(refusal.code.rawValue): "
                    + "\(refusal.details ?? "")")
        }
    }
}

/// The authority and the merchants of one run.
private struct Forge: Sendable {
    static let shared = Result { try Forge() }

    let now = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down))
    let mint: TokenMint
    let ec: Merchant
    let rsa: Merchant
    private let policy: TrustPolicy

    init() throws {
        let authority = try ForgeAuthority(now: now)
        mint = TokenMint(authority: authority)
        let identifier = "merchant.org.example.fuzzing"
        ec = Merchant(
            identifier: identifier, subjectPublicKeyInfo: try ForgeKey(generating: .p256).subjectPublicKeyInfo)
        rsa = Merchant(
            identifier: identifier, subjectPublicKeyInfo: try ForgeKey(generating: .rsa2048).subjectPublicKeyInfo)
        policy = TrustPolicy(roots: [try Certificate(derEncoded: authority.root.certificate)], distrusted: [])
    }

    /// The signed content of an accepted payment token, or the refusal. Steps that need the merchant's key are left out.
    func verdict(of json: [UInt8]) async -> Result<[UInt8], Refusal> {
        do throws(Refusal) {
            guard let value = try? JSONValue(parsing: json) else {
                return .failure(Refusal(.malformedToken, "not JSON"))
            }
            let paymentToken = try PaymentToken(json: value)
            let evidence = try SignatureEvidence(of: paymentToken)
            _ = try await policy.evaluate(evidence)
            return .success(paymentToken.signedContent)
        } catch {
            return .failure(error)
        }
    }

    /// The code with which the verification without a key refuses the deviation; nil if it accepts it.
    static func refusal(of deviation: Deviation?) -> String? {
        guard let code = deviation?.refusal, code != "decryption_failed", code != "unknown_public_key_hash" else {
            return nil
        }
        return code
    }
}
