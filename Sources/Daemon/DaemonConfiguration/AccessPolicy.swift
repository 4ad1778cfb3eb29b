package import AccessControl
import ConfigurationFile
package import DaemonAPI
import Glibc
package import HTTPListener
package import HostSystem
import Ledger
package import PaymentToken
import WorkerSupervision

/// The rules that decide which peers the daemon serves. The first rule that matches a peer decides alone. The daemon
/// refuses a peer that no rule matches.
package struct AccessPolicy: Sendable, Equatable {
    package let rules: [AccessRule]
    let overflow: OverflowIdentifiers

    init(rules: [AccessRule], overflow: OverflowIdentifiers = .current) {
        self.rules = rules
        self.overflow = overflow
    }

    /// Returns the policy for a configuration without `access`: root and the daemon's own user have all roles.
    static func ownUserAndRoot(ownUID: UInt32 = geteuid(), overflow: OverflowIdentifiers = .current) -> AccessPolicy {
        let accounts = [Account(name: "root", id: 0), Account(name: String(ownUID), id: ownUID)]
        return AccessPolicy(
            rules: accounts.map { AccessRule(user: $0, roles: Set(Role.allCases)) }, overflow: overflow)
    }

    /// Returns the peer as a caller, with the permissions of the first rule that matches it; nil if no rule matches.
    package func caller(for peer: PeerCredentials) -> Caller? {
        rule(for: peer).map { Caller(rule: $0, peer: peer) }
    }

    /// Returns the set of accounts that share one set of limits with this peer. If the peer's rule names only a group,
    /// these are the accounts that the group admits. If no rule matches the peer, these are all accounts without a
    /// rule. Nil if the peer's rule names a user: that user has its own limits.
    package func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? {
        rules.unnamedAccounts(of: peer, overflow: overflow)
    }

    private func rule(for peer: PeerCredentials) -> AccessRule? {
        rules.first(matching: peer, overflow: overflow)
    }

    /// True if a rule gives the role decrypt: this host serves payments.
    package var permitsDecryption: Bool { rules.contains { $0.roles.contains(.decrypt) } }

    /// Returns true if a rule with this name gives the role. The roles of a caller on another host can be checked only
    /// by the name of its rule, since uids and groups differ between hosts.
    package func gives(_ role: Role, toName name: String) -> Bool {
        rules.contains { $0.name == name && $0.roles.withImplied.contains(role) }
    }
}

/// One entry of the configuration's `access`: the peers that it matches, and their permissions.
package struct AccessRule: PeerRule, Sendable, Equatable {
    /// The caller's name in audit records. A repeat must come from a caller of the same name. If the rule has no name,
    /// the peer's uid serves as the caller's name.
    var name: String?
    package var user: Account?
    /// The peer's primary or a supplementary group. If `user` is set too, the peer must match both.
    package var group: Account?
    var roles: Set<Role>
    /// The merchants whose keys the caller may use. Nil allows all merchants. An empty array allows no merchant.
    var merchants: [MerchantPattern]?
    /// The members of `expected` that each decrypt request of the caller must contain.
    var requireExpected: Set<String> = []
    /// The signing-time window for this caller; nil for the window of `verification`.
    package var signingTimeWindow: SigningTimeWindow?
    /// False if the rule's `wallets` leave out Apple Pay.
    var servesApplePay = true
    /// The permissions for Google Pay; nil if the rule does not serve it. ``merchants`` are Apple's alone.
    var googlePay: GooglePayAccess?

    /// True if the rule permits decrypting but has no name. The ledger then identifies the rule's callers by uid, and
    /// another host may have given the same uid to another account.
    package var lacksName: Bool { name == nil && roles.contains(.decrypt) }
}

/// A set of operations that a rule permits. The raw values are the roles' names in the configuration.
package enum Role: String, CaseIterable, Sendable {
    /// Decrypt and verify.
    case decrypt
    /// Sign TLS handshakes with merchants' identity keys.
    case session
    /// Have JSON Web Tokens for reading Apple's API signed, and report the answers (paytoken-outbound).
    case portalRead = "portal-read"
    /// Read the metrics and the status; list and show keys.
    case monitor
    /// Read and export the key-usage record; implies `monitor`.
    case audit
    /// All operations except those of `decrypt`, `session` and `portal-read`; implies `monitor`.
    case admin
}

extension Set<Role> {
    /// These roles, and `monitor` if they include `audit` or `admin`.
    var withImplied: Set<Role> {
        isDisjoint(with: [.audit, .admin]) ? self : union([.monitor])
    }
}

/// A peer that a rule matches, with the permissions of that rule.
package struct Caller: Sendable, Equatable {
    /// The rule's name, or the peer's uid in decimal if the rule has none. A repeat must come from a caller of the same
    /// name.
    package let name: String
    package let peer: PeerCredentials
    /// The caller's roles, including the implied ones.
    let roles: Set<Role>
    /// The members of `expected` that each decrypt request of the caller must contain.
    package let requireExpected: Set<String>
    /// The signing-time window for this caller; nil for the window of `verification`.
    package let signingTimeWindow: SigningTimeWindow?
    /// The accounts with which the caller shares limits, if its rule names only a group; nil if the rule names the user.
    package let unnamedAccounts: UnnamedAccounts?
    private let merchants: [MerchantPattern]?
    private let servesApplePay: Bool
    /// The rule's permissions for Google Pay; nil if it does not serve it.
    package let googlePay: GooglePayAccess?
    /// The name of the client on whose behalf the caller sent this request, as the caller states it. The daemon uses
    /// the name only to share its capacity fairly among clients. The daemon neither records nor trusts the name.
    package private(set) var client: ClientName?

    init(rule: AccessRule, peer: PeerCredentials) {
        name = rule.name ?? String(peer.uid)
        self.peer = peer
        roles = rule.roles.withImplied
        requireExpected = rule.requireExpected
        signingTimeWindow = rule.signingTimeWindow
        unnamedAccounts = rule.unnamedAccounts
        merchants = rule.merchants
        servesApplePay = rule.servesApplePay
        googlePay = rule.googlePay
    }

    /// Returns a copy of the caller for a request on behalf of this client, or of no client if `client` is nil.
    package func asking(for client: ClientName?) -> Caller {
        var caller = self
        caller.client = client
        return caller
    }

    package var uid: UInt32 { peer.uid }
    package var gid: UInt32 { peer.gid }

    package func has(_ role: Role) -> Bool { roles.contains(role) }

    /// Returns true if the caller's rule serves Apple Pay and allows this merchant of it.
    package func allows(merchant identifier: String) -> Bool {
        guard servesApplePay else { return false }
        guard let merchants else { return true }
        return merchants.contains { $0.matches(identifier) }
    }
}

extension Requester {
    /// - Parameter origin: the request's connection. When the peer closes the connection, the request's queued HSM
    ///   calls are dropped. Nil if the calls must be made even if the peer closes the connection.
    package init(_ caller: Caller, from origin: RequestOrigin? = nil) {
        self.init(caller: caller.name, client: caller.client?.text, hasLeft: { origin?.hasLeft ?? false })
    }
}

extension PeerCredentials {
    /// The uid and login uid that distinguish persons in approvals. Nil if the login uid cannot be read: such a peer
    /// can neither request nor give an approval.
    package var person: PersonIdentities? {
        switch loginUID {
        case .set(let loginUID): PersonIdentities(uid: uid, loginUID: loginUID)
        case .unset: PersonIdentities(uid: uid)
        case .unreadable: nil
        }
    }
}
