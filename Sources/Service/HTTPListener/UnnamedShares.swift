package import AccessControl

/// The part of a Unix socket's places for accounts that no rule names: one account can have thousands of uids in user namespaces, each
/// with its own places. The rest is for the accounts that rules name.
package struct UnnamedShares: Sendable {
    /// All places of the socket.
    private let total: Int

    package init(total: Int) { self.total = total }

    /// The places of all these accounts.
    private var all: Int { share(3, of: 4) }
    /// Those of one rule's accounts.
    private var ofRule: Int { share(1, of: 2) }
    /// Those of accounts that no rule admits, whose requests are refused.
    private var unmatched: Int { share(1, of: 4) }

    package func bounds(for accounts: UnnamedAccounts?) -> [ConnectionBound] {
        guard let accounts else { return [] }
        return [
            ConnectionBound(accounts.source, most: accounts == .unmatched ? unmatched : ofRule),
            ConnectionBound(.unnamedAccounts, most: all),
        ]
    }

    private func share(_ part: Int, of parts: Int) -> Int { max(1, total * part / parts) }

    /// A connection that is counted by its peer's uid, and by the rule that admits it if that names no user.
    ///
    /// - Parameters:
    ///   - accounts: those among which a peer is counted; nil for an account that a rule names.
    ///   - handler: of the connection's requests.
    package func accept(
        _ connection: CInt, counting accounts: (PeerCredentials) -> UnnamedAccounts?,
        handler: @escaping @Sendable (PeerCredentials) -> any RequestHandler
    ) throws -> AcceptedConnection {
        // The kernel recorded these when the peer connected and does not change them, so they are asked for once.
        let peer = try PeerCredentials(connectedSocket: connection)
        let unnamed = accounts(peer)
        // One account can have thousands of uids in user namespaces, and would have as many turns.
        let share = unnamed.map { TurnShare(of: $0.source, named: "\(peer.uid)") } ?? TurnShare(of: .user(peer.uid))
        return AcceptedConnection(
            source: .user(peer.uid), within: bounds(for: unnamed), share: { share }, handler: { _ in handler(peer) })
    }
}

extension UnnamedAccounts {
    /// The source that their connections are counted by, and whose turns their work takes.
    fileprivate var source: ConnectionSource {
        switch self {
        case .group(let group): .accounts("group \(group)")
        case .unmatched: .accounts("unmatched")
        }
    }
}
