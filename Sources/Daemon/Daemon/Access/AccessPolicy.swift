import AccessControl
import ConfigurationFile
import DaemonAPI
import Glibc
import HTTPListener
import HostSystem
import Ledger
import PaymentToken
import WorkerSupervision

/// The peers that are served. The first rule that matches a peer decides alone; a peer that no rule matches is not
/// served.
struct AccessPolicy: Sendable, Equatable {
    let rules: [AccessRule]
    let overflow: OverflowIdentifiers

    init(rules: [AccessRule], overflow: OverflowIdentifiers = .current) {
        self.rules = rules
        self.overflow = overflow
    }

    /// The policy without an `access` section: the daemon's own user and root, with all roles.
    static func ownUserAndRoot(ownUID: UInt32 = geteuid(), overflow: OverflowIdentifiers = .current) -> AccessPolicy {
        let accounts = [Account(name: "root", id: 0), Account(name: String(ownUID), id: ownUID)]
        return AccessPolicy(
            rules: accounts.map { AccessRule(user: $0, roles: Set(Role.allCases)) }, overflow: overflow)
    }

    /// Returns the peer's caller, or nil when no rule matches it.
    func caller(for peer: PeerCredentials) -> Caller? {
        rule(for: peer).map { Caller(rule: $0, peer: peer) }
    }

    /// The group of accounts that this peer counts for; nil for an account that its rule names.
    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? {
        rules.unnamedAccounts(of: peer, overflow: overflow)
    }

    private func rule(for peer: PeerCredentials) -> AccessRule? {
        rules.first(matching: peer, overflow: overflow)
    }

    /// Returns true if a rule of this name gives this role. For a caller of another host, this host knows only the
    /// name.
    func gives(_ role: Role, toName name: String) -> Bool {
        rules.contains { $0.name == name && $0.roles.withImplied.contains(role) }
    }
}

/// One entry of the configuration's `access`: the peers that it matches, and their permissions.
struct AccessRule: PeerRule, Sendable, Equatable {
    /// The caller's name in audit records, by which repeats of the same caller are recognised too; nil means the peer's
    /// uid.
    var name: String?
    var user: Account?
    /// The primary or a supplementary group. With `user` too, both must match.
    var group: Account?
    var roles: Set<Role>
    /// The merchants whose keys the callers may use; nil allows all, an empty list none.
    var merchants: [MerchantPattern]?
    /// The members of `expected` that each decrypt request must contain.
    var requireExpected: Set<String> = []
    /// The signing-time window of these callers; nil means the window of `verification`.
    var signingTimeWindow: SigningTimeWindow?

    /// Returns true if its callers decrypt and are identified by their uids, which another host may have given to other
    /// accounts.
    var lacksName: Bool { name == nil && roles.contains(.decrypt) }
}

/// A caller's permissions. The raw values are those of the configuration.
enum Role: String, CaseIterable, Sendable {
    /// Decrypt and verify.
    case decrypt
    /// Sign TLS handshakes with merchants' identity keys.
    case session
    /// Metrics, status, key list and show.
    case monitor
    /// The key-usage record; implies monitor.
    case audit
    /// All other operations except decrypt and session; implies monitor.
    case admin
}

extension Set<Role> {
    /// These roles and the ones they imply.
    var withImplied: Set<Role> {
        isDisjoint(with: [.audit, .admin]) ? self : union([.monitor])
    }
}

/// A peer that a rule matched, with the rule's permissions.
struct Caller: Sendable, Equatable {
    /// The rule's name, or the uid in decimal. A repeat must come from the same name.
    let name: String
    let peer: PeerCredentials
    /// The caller's roles, including the implied ones.
    let roles: Set<Role>
    /// The members of `expected` that each of its decrypt requests must contain.
    let requireExpected: Set<String>
    /// The caller's signing-time window; nil means the window of `verification`.
    let signingTimeWindow: SigningTimeWindow?
    /// The accounts that its rule admits by a group alone; nil if the rule names the user.
    let unnamedAccounts: UnnamedAccounts?
    private let merchants: [MerchantPattern]?
    /// The caller's own client, as the caller names it. It determines only turns and is neither recorded nor trusted.
    private(set) var client: ClientName?

    init(rule: AccessRule, peer: PeerCredentials) {
        name = rule.name ?? String(peer.uid)
        self.peer = peer
        roles = rule.roles.withImplied
        requireExpected = rule.requireExpected
        signingTimeWindow = rule.signingTimeWindow
        unnamedAccounts = rule.unnamedAccounts
        merchants = rule.merchants
    }

    /// Returns the same caller, acting for one of its own clients.
    func asking(for client: ClientName?) -> Caller {
        var caller = self
        caller.client = client
        return caller
    }

    var uid: UInt32 { peer.uid }
    var gid: UInt32 { peer.gid }

    func has(_ role: Role) -> Bool { roles.contains(role) }

    /// Returns true if the caller's rule allows this merchant.
    func allows(merchant identifier: String) -> Bool {
        guard let merchants else { return true }
        return merchants.contains { $0.matches(identifier) }
    }
}

extension Requester {
    /// - Parameter origin: the request's connection; nil if the call is made even if the peer has left.
    init(_ caller: Caller, from origin: RequestOrigin? = nil) {
        self.init(caller: caller.name, client: caller.client?.text, hasLeft: { origin?.hasLeft ?? false })
    }
}

extension PeerCredentials {
    /// The identities that distinguish persons in approvals; nil for an unknown person, who can neither request nor
    /// approve.
    var person: PersonIdentities? {
        switch loginUID {
        case .set(let loginUID): PersonIdentities(uid: uid, loginUID: loginUID)
        case .unset: PersonIdentities(uid: uid)
        case .unreadable: nil
        }
    }
}
