import AccessControl
import ConfigurationFile
import DaemonAPI
import HTTPListener
import PaymentToken
import WorkerSupervision

/// A peer whom a rule matched, and what that rule lets it do.
struct Caller: Sendable, Equatable {
    /// The rule's name, or the uid in decimal: this is what a repeat must have in common.
    let name: String
    let peer: PeerCredentials
    /// With the implied ones.
    let roles: Set<Role>
    /// Members of `expected` that each of its decrypt requests must bring.
    let requireExpected: Set<String>
    /// nil means the one of `verification`.
    let signingTimeWindow: SigningTimeWindow?
    /// The accounts that its rule admits by a group alone; nil where the rule names the user.
    let unnamedAccounts: UnnamedAccounts?
    private let merchants: [MerchantPattern]?
    /// The client of its own for which it asks, as it says: for its turns only, neither recorded nor trusted.
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

    /// The same caller, asking for one of its own clients.
    func asking(for client: ClientName?) -> Caller {
        var caller = self
        caller.client = client
        return caller
    }

    var uid: UInt32 { peer.uid }
    var gid: UInt32 { peer.gid }

    func has(_ role: Role) -> Bool { roles.contains(role) }

    /// Whether this caller may have payment tokens of this merchant decrypted.
    func allows(merchant identifier: String) -> Bool {
        guard let merchants else { return true }
        return merchants.contains { $0.matches(identifier) }
    }
}

extension Requester {
    /// - Parameter origin: the request's connection; nil where the call is made though the peer has left.
    init(_ caller: Caller, from origin: RequestOrigin? = nil) {
        self.init(caller: caller.name, client: caller.client?.text, hasLeft: { origin?.hasLeft ?? false })
    }
}
