import AuditChain

/// A key in the year's story.
final class MerchantKey {
    let hash: AuditDigest
    let merchant: String
    let use: String
    let algorithm: String
    let protection: AuditProtection
    var state = AuditKeyState.preActivation
    /// The time until which it opens payment tokens after its deactivation, milliseconds since 1970.
    var cutOff: Int64 = .min
    /// The time at which its successor was activated, milliseconds since 1970.
    var succeededAt: Int64?
    var life: Truth.Key

    init(label: String, merchant: String, use: String = "processing", algorithm: String, seed: UInt64) {
        hash = .of("\(seed) \(label)".utf8)
        self.merchant = merchant
        self.use = use
        self.algorithm = algorithm
        protection = algorithm == "EC" ? .b : .c
        life = Truth.Key(publicKeyHash: hash.base64, merchant: merchant, use: use, algorithm: algorithm)
    }

    func opens(at now: Int64) -> Bool { state == .active || state == .deactivated && now < cutOff }
}

/// A merchant with the key of its payment tokens, and the previous one.
struct Merchant {
    let identifier: String
    let algorithm: String
    /// The share of all payments.
    let share: Double
    var current: MerchantKey?
    var former: MerchantKey?

    /// The share of payment tokens under the former key: they arrive for hours after a rotation, and a few when it
    /// opens nothing any more.
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
