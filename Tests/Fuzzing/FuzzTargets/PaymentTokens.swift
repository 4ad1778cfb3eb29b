import Encodings
import Foundation
import Locks
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
        let forged = try forge.forged(form: input.first ?? 0, deviation: input.dropFirst().first ?? 0)
        let deviation = forged.deviation

        var signature = forged.signature
        for change in stride(from: 2, to: input.count - 2, by: 3) where !signature.isEmpty {
            let position = Int(input[change + 1]) * signature.count / 256
            switch input[change] % 4 {
            case 0: signature[position] ^= input[change + 2] | 1
            case 1: signature.remove(at: position)
            case 2: signature.insert(input[change + 2], at: position)
            default: signature.swapAt(position, Int(input[change + 2]) * signature.count / 256)
            }
        }
        let isChanged = signature != forged.signature

        let found = await forge.verdict(of: forged.json(with: signature))
        switch found {
        case .success(let content):
            try expect(content == forged.signedContent, "a payment token is accepted with content that was not signed")
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

/// A payment token that was minted.
private struct ForgedToken: Sendable {
    let deviation: Deviation?
    let signature: [UInt8]
    let signedContent: [UInt8]
    /// The JSON before and after the CMS message.
    private let (beginning, end): ([UInt8], [UInt8])

    init(_ minted: MintedToken, deviation: Deviation?) throws {
        (self.deviation, signature, signedContent) = (deviation, minted.signature, minted.signedContent)
        let json = minted.paymentToken
        guard let place = Data(json).range(of: Self.base64(signature, deviation)) else {
            throw Disagreement("the minted payment token does not contain its CMS message")
        }
        (beginning, end) = (Array(json[..<place.lowerBound]), Array(json[place.upperBound...]))
    }

    /// The payment token's JSON with another CMS message.
    func json(with signature: [UInt8]) -> [UInt8] { beginning + Self.base64(signature, deviation) + end }

    private static func base64(_ bytes: [UInt8], _ deviation: Deviation?) -> Data {
        let text = Data(bytes).base64EncodedData()
        return deviation == .signatureNotBase64 ? Data("*".utf8) + text.dropFirst() : text
    }
}

/// The authority and the merchants of one run.
private final class Forge: Sendable {
    static let shared = Result { try Forge() }

    private let now = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down))
    private let mint: TokenMint
    private let ec: Merchant
    private let rsa: Merchant
    private let policy: TrustPolicy
    /// The minted payment tokens by form and deviation, since minting takes longer than the check.
    private let minted = Mutex<[[UInt8]: ForgedToken]>([:])

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

    /// The payment token of a wire form, with a deviation unless that is 0.
    func forged(form: UInt8, deviation choice: UInt8) throws -> ForgedToken {
        let isRSA = form & 1 != 0
        let deviations = Deviation.allCases.filter { $0.applies(to: isRSA ? "RSA_v1" : "EC_v1") }
        let deviation = choice == 0 ? nil : deviations[Int(choice) % deviations.count]
        let key = [form & 0x7F, choice == 0 ? 0 : UInt8(Int(choice) % deviations.count + 1)]
        if let forged = minted.withLock({ $0[key] }) { return forged }
        var wire = WireForm()
        wire.indefiniteLengths = form & 2 == 0
        wire.digestParametersNull = form & 4 == 0
        wire.algorithmProtection = form & 8 == 0
        wire.issuerFirst = form & 16 != 0
        wire.rsaEncryptionAlgorithm = form & 32 != 0
        let recipe = TokenRecipe(
            merchant: isRSA ? rsa : ec, applicationData: form & 64 != 0 || deviation != nil ? [7] : nil,
            signingTime: now, wire: wire, deviations: deviation.map { [$0] } ?? [])
        let forged = try ForgedToken(mint.mint(recipe), deviation: deviation)
        minted.withLock { $0[key] = forged }
        return forged
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
