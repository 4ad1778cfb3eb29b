import MerchantKeys
import WorkerProtocol

extension TokenPool {
    /// The tier that serves the key now. Where tokens differ it is the weakest: what can be promised for every payment.
    @Sendable func tier(of algorithm: KeyAlgorithm, in holders: [String]) -> ProtectionTier? {
        let scheme: RestorationScheme = algorithm == .ec ? .ecV1 : .rsaV1
        return hsmTokens.filter { holders.contains($0.name) }.compactMap { $0.tier(for: scheme) }
            .max { $0.rawValue < $1.rawValue }
    }

    /// Whether a payment for the key would be opened now.
    func serves(_ entry: KeyEntry) -> Bool { tier(of: entry.algorithm, in: entry.hsmTokens) != nil }
}
