import Glibc

/// Who is served. The first rule that matches the peer decides alone; no match, no service.
struct AccessPolicy: Sendable, Equatable {
    let rules: [AccessRule]
    let overflow: OverflowIdentifiers

    init(rules: [AccessRule], overflow: OverflowIdentifiers = .current) {
        self.rules = rules
        self.overflow = overflow
    }

    /// Without an `access` section: the daemon's own user and root, with all roles.
    static func ownUserAndRoot(ownUID: UInt32 = geteuid(), overflow: OverflowIdentifiers = .current) -> AccessPolicy {
        let accounts = [AccessRule.Account(name: "root", id: 0), AccessRule.Account(name: String(ownUID), id: ownUID)]
        return AccessPolicy(
            rules: accounts.map { AccessRule(user: $0, roles: Set(Role.allCases)) }, overflow: overflow)
    }

    /// The caller that this peer is, or nil when no rule matches it.
    func caller(for peer: PeerCredentials) -> Caller? {
        rules.first { $0.matches(peer, overflow: overflow) }.map { Caller(rule: $0, peer: peer) }
    }
}
