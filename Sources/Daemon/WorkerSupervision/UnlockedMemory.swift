import SecretMemory

/// Secrets that lie in memory which the kernel may swap, since the limit on locked memory is used up: in this process,
/// and in the workers as they last said.
package struct UnlockedMemory: Sendable {
    private let hsmTokens: HSMTokenPool

    package init(hsmTokens: HSMTokenPool) { self.hsmTokens = hsmTokens }

    package static let warning =
        "secrets are not locked in memory and may be swapped to a disk; raise the limit on locked memory "
        + "(LimitMEMLOCK= in the unit, ulimit -l)"

    /// Bytes, over all processes.
    package var total: Int {
        hsmTokens.all.reduce(SecretBytes.unlockedByteCount) { $0 + $1.unlockedSecrets }
    }

    /// A sentence for each process that has any.
    package var warnings: [String] {
        let own = SecretBytes.unlockedByteCount
        return (own > 0 ? ["paytokend: \(Self.warning): \(own) bytes"] : [])
            + hsmTokens.all.filter { $0.unlockedSecrets > 0 }
            .map { "token \($0.name): \(Self.warning): \($0.unlockedSecrets) bytes" }
    }
}
