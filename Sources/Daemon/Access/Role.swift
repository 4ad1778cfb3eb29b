/// What a caller may do. The raw values are those of the configuration.
enum Role: String, CaseIterable, Sendable {
    /// Decrypt and verify.
    case decrypt
    /// Metrics, status, key list and show.
    case monitor
    /// The key-usage record; implies monitor.
    case audit
    /// Everything else; implies monitor.
    case admin
}

extension Set<Role> {
    /// These roles and the ones they imply.
    var withImplied: Set<Role> {
        isDisjoint(with: [.audit, .admin]) ? self : union([.monitor])
    }
}
