import SecretMemory

/// The amount of secrets in memory that the kernel may swap to a disk, since the limit on locked memory is exhausted. The
/// amount includes this process, and the workers as they last reported.
package struct UnlockedMemory: Sendable {
    private let hsmTokens: HSMTokenPool

    package init(hsmTokens: HSMTokenPool) { self.hsmTokens = hsmTokens }

    package static let warning =
        "secrets are not locked in memory and may be swapped to a disk; raise the limit on locked memory "
        + "(LimitMEMLOCK= in the unit, ulimit -l)"

    /// The number of bytes in this process and all workers.
    package var total: Int {
        hsmTokens.all.reduce(SecretBytes.unlockedByteCount) { $0 + $1.unlockedSecrets }
    }

    /// One sentence for each process with unlocked secrets.
    package var warnings: [String] {
        let own = SecretBytes.unlockedByteCount
        return (own > 0 ? ["paytokend: \(Self.warning): \(own) bytes"] : [])
            + hsmTokens.all.filter { $0.unlockedSecrets > 0 }
            .map { "HSM token \($0.name): \(Self.warning): \($0.unlockedSecrets) bytes" }
    }
}
