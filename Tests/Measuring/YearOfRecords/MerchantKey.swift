import AuditChain
import KeyTypes

/// A merchant's key in the story.
final class MerchantKey {
    let hash: AuditDigest
    let merchant: String
    let use: String
    let algorithm: String
    let protection: AuditProtection
    var state = AuditKeyState.preActivation
    /// The time until which the key, once deactivated, still decrypts payment tokens, in milliseconds since 1970.
    var cutOff: Int64 = .min
    /// The time at which the successor was activated, in milliseconds since 1970; nil before that.
    var succeededAt: Int64?
    var life: Truth.Key
    /// True if the HSM token has a copy of the key that can be extracted.
    var isCopied = false

    init(label: String, merchant: String, use: String = "processing", algorithm: String, seed: UInt64) {
        hash = .of("\(seed) \(label)".utf8)
        self.merchant = merchant
        self.use = use
        self.algorithm = algorithm
        protection = algorithm == "EC" ? .b : .c
        life = Truth.Key(publicKeyHash: hash.base64, merchant: merchant, use: use, algorithm: algorithm)
    }

    var keyAlgorithm: KeyAlgorithm { algorithm == "EC" ? .ec : .rsa }

    /// The operation that opens a payment token.
    var opening: RecordedKeyAttributes.Use { algorithm == "EC" ? .derive : .decrypt }

    /// True if the key came from a file.
    var isImported: Bool { use == "identity" }

    /// The attributes of the key, and of its copy if there is one, in the HSM token.
    var attributes: [RecordedKeyAttributes] {
        var attributes = RecordedKeyAttributes(
            algorithm: keyAlgorithm, bits: keyAlgorithm.bits, sensitive: true, extractable: false,
            alwaysSensitive: !isImported, neverExtractable: !isImported, local: !isImported, token: true, private: true,
            modifiable: true, uses: isImported ? [.sign] : [opening, .sign])
        guard isCopied else { return [attributes] }
        let own = attributes
        (attributes.sensitive, attributes.extractable, attributes.local) = (false, true, false)
        (attributes.alwaysSensitive, attributes.neverExtractable) = (false, false)
        return [own, attributes]
    }

    func opens(at now: Int64) -> Bool { state == .active || state == .deactivated && now < cutOff }
}

/// A merchant with its current and its previous key for payment tokens.
struct Merchant {
    let identifier: String
    let algorithm: String
    /// The merchant's share of all payments, from 0 to 1.
    let share: Double
    var current: MerchantKey?
    var former: MerchantKey?

    /// Returns the share of the merchant's payment tokens that are encrypted to the former key. Many such payment
    /// tokens arrive in the hours after a rotation, and a few after the former key's cut-off.
    func formerShare(at now: Int64) -> Double {
        guard let former, let succeeded = former.succeededAt else { return 0 }
        let hours = Double(now - succeeded) / 3_600_000
        switch former.state {
        case .active: return max(0.04, 1 - hours / 12)
        case .deactivated where now < former.cutOff: return 0.02
        case .deactivated, .compromised: return hours < 24 * 10 ? 0.002 : 0
        default: return 0
        }
    }
}
