import AccessControl
import ConfigurationFile
import Glibc
import HostSystem
import PaymentToken

/// The peers that are served. The first rule that matches the peer decides alone; no match, no service.
struct AccessPolicy: Sendable, Equatable {
    let rules: [AccessRule]
    let overflow: OverflowIdentifiers

    init(rules: [AccessRule], overflow: OverflowIdentifiers = .current) {
        self.rules = rules
        self.overflow = overflow
    }

    /// Without an `access` section: the daemon's own user and root, with all roles.
    static func ownUserAndRoot(ownUID: UInt32 = geteuid(), overflow: OverflowIdentifiers = .current) -> AccessPolicy {
        let accounts = [Account(name: "root", id: 0), Account(name: String(ownUID), id: ownUID)]
        return AccessPolicy(
            rules: accounts.map { AccessRule(user: $0, roles: Set(Role.allCases)) }, overflow: overflow)
    }

    /// The caller that this peer is, or nil when no rule matches it.
    func caller(for peer: PeerCredentials) -> Caller? {
        rule(for: peer).map { Caller(rule: $0, peer: peer) }
    }

    /// The accounts among which this peer is counted; nil for an account that its rule names.
    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? {
        rules.unnamedAccounts(of: peer, overflow: overflow)
    }

    private func rule(for peer: PeerCredentials) -> AccessRule? {
        rules.first(matching: peer, overflow: overflow)
    }

    /// Returns true if a rule of this name gives this role. Of a caller of another host no more is known here.
    func gives(_ role: Role, toName name: String) -> Bool {
        rules.contains { $0.name == name && $0.roles.withImplied.contains(role) }
    }
}

/// One entry of the configuration's `access`: whom it matches, and what those may do.
struct AccessRule: PeerRule, Sendable, Equatable {
    /// The caller's name in records and for repeats; nil means the peer's uid.
    var name: String?
    var user: Account?
    /// Primary or supplementary. With `user` too, both must match.
    var group: Account?
    var roles: Set<Role>
    /// nil allows all merchants, an empty list none.
    var merchants: [MerchantPattern]?
    /// Names of `expected`'s members that each decrypt request must bring.
    var requireExpected: Set<String> = []
    /// nil means the one of `verification`.
    var signingTimeWindow: SigningTimeWindow?

    /// Returns true if its callers decrypt and are known by their uids, which another host may have given to other accounts.
    var lacksName: Bool { name == nil && roles.contains(.decrypt) }
}

/// What a caller may do. The raw values are those of the configuration.
enum Role: String, CaseIterable, Sendable {
    /// Decrypt and verify.
    case decrypt
    /// Sign TLS handshakes with merchants' identity keys.
    case session
    /// Metrics, status, key list and show.
    case monitor
    /// The key-usage record; implies monitor.
    case audit
    /// Everything else but decrypt and session; implies monitor.
    case admin
}

extension Set<Role> {
    /// These roles and the ones they imply.
    var withImplied: Set<Role> {
        isDisjoint(with: [.audit, .admin]) ? self : union([.monitor])
    }
}
