internal import Foundation

/// Chains that were accepted, by the exact bytes of leaf and intermediate. Bounded; the oldest leaves first.
///
/// Only what one `TrustPolicy` accepted is in its cache, so the root set and the distrusted certificates are part of the
/// key by being that policy's own. Nobody can fill it but with certificates that chain to a root.
struct ChainCache {
    struct Key: Hashable {
        let leafDER: [UInt8]
        let intermediateDER: [UInt8]
    }

    private let capacity: Int
    private var chains: [Key: VerifiedChain] = [:]
    private var order: [Key] = []

    init(capacity: Int) {
        self.capacity = capacity
    }

    /// The accepted chain, when `signingTime` lies within the validity of all three of its certificates.
    func chain(for key: Key, validAt signingTime: Date) -> VerifiedChain? {
        guard let chain = chains[key],
            chain.certificates.allSatisfy({ certificate in certificate.isValid(at: signingTime) })
        else { return nil }
        return chain
    }

    mutating func insert(_ chain: VerifiedChain, for key: Key) {
        guard capacity > 0 else { return }
        if chains.updateValue(chain, forKey: key) == nil { order.append(key) }
        if order.count > capacity { chains[order.removeFirst()] = nil }
    }

    var count: Int { chains.count }
}
