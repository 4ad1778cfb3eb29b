package import AccessControl

/// The limits on a Unix socket's connections from accounts that no rule names. One account can have thousands of uids in user
/// namespaces, each with its own limit. The remaining connections are for the accounts that rules name.
package struct UnnamedShares: Sendable {
    /// The maximum number of the socket's connections.
    private let total: Int

    package init(total: Int) { self.total = total }

    /// The maximum for all these accounts together.
    private var all: Int { share(3, of: 4) }
    /// The maximum for the accounts of one rule.
    private var ofRule: Int { share(1, of: 2) }
    /// The maximum for accounts that no rule admits, whose requests are refused.
    private var unmatched: Int { share(1, of: 4) }

    package func bounds(for accounts: UnnamedAccounts?) -> [ConnectionBound] {
        guard let accounts else { return [] }
        return [
            ConnectionBound(accounts.source, most: accounts == .unmatched ? unmatched : ofRule),
            ConnectionBound(.unnamedAccounts, most: all),
        ]
    }

    private func share(_ part: Int, of parts: Int) -> Int { max(1, total * part / parts) }

    /// Accepts a connection that counts for its peer's uid. If the rule that admits the peer names no user, the connection
    /// also counts for that rule.
    ///
    /// - Parameters:
    ///   - accounts: returns the accounts with which a peer is counted; nil for an account that a rule names.
    ///   - handler: returns the handler of the connection's requests.
    package func accept(
        _ connection: CInt, counting accounts: (PeerCredentials) -> UnnamedAccounts?,
        handler: @escaping @Sendable (PeerCredentials) -> any RequestHandler
    ) throws -> AcceptedConnection {
        // The kernel recorded these when the peer connected and does not change them, so they are read only once.
        let peer = try PeerCredentials(connectedSocket: connection)
        let unnamed = accounts(peer)
        // One account can have thousands of uids in user namespaces, and would have as many turns.
        let share = unnamed.map { TurnShare(of: $0.source, named: "\(peer.uid)") } ?? TurnShare(of: .user(peer.uid))
        return AcceptedConnection(
            source: .user(peer.uid), within: bounds(for: unnamed), share: { share }, handler: { _ in handler(peer) })
    }
}

extension UnnamedAccounts {
    /// The source that their connections count for, and whose turns their work takes.
    fileprivate var source: ConnectionSource {
        switch self {
        case .group(let group): .accounts("group \(group)")
        case .unmatched: .accounts("unmatched")
        }
    }
}
