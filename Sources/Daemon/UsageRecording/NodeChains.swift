package import AuditChain
package import Ledger
package import Refusals

/// The chains of all nodes in the ledger, this node's first.
package struct NodeChains: Sendable {
    package struct Chain: Sendable {
        package let node: AuditNode
        package let chain: any ChainReading
        /// True if this daemon writes the chain, and so can seal it.
        package let isOwn: Bool
    }

    let trail: any AuditTrail
    let nodes: any Ledger

    package init(trail: any AuditTrail, nodes: any Ledger) { (self.trail, self.nodes) = (trail, nodes) }

    /// Returns the chains that the query selects.
    /// - Throws: malformed_request if the query names an unknown node; the details list the known nodes.
    package func chosen(_ query: NodeQuery) async throws(Refusal) -> [Chain] {
        let own = Chain(node: try await Self.reading(await trail.head()).node, chain: trail, isOwn: true)
        if query == .own || query == .one(own.node) { return [own] }
        let known = try await Self.reading(await nodes.nodes())
        let others = known.filter { $0 != own.node }.map {
            Chain(node: $0, chain: nodes.chain(of: $0), isOwn: false)
        }
        guard case .one(let node) = query else { return [own] + others }
        guard let other = others.first(where: { $0.node == node }) else {
            let names = [own.node.name] + others.map(\.node.name)
            throw Refusal(
                .malformedRequest, "This ledger has no node of that name.",
                details: "node: it has \(names.prefix(20).joined(separator: ", "))"
                    + (names.count > 20 ? " and \(names.count - 20) more" : ""))
        }
        return [other]
    }

    /// Makes a call to the ledger, and returns its result. If the call fails, throws ``LedgerFailure/refusalToReader``.
    package static func reading<Value>(
        _ call: @autoclosure () async throws(LedgerFailure) -> Value
    ) async throws(Refusal) -> Value {
        do throws(LedgerFailure) {
            return try await call()
        } catch {
            throw error.refusalToReader
        }
    }
}

extension LedgerFailure {
    /// The refusal for a caller that reads the record. Its sentence differs from that of ``refusal``, since the caller
    /// did not request a release.
    package var refusalToReader: Refusal {
        if case .overloaded = self { return refusal }
        return Refusal(.ledgerUnavailable, "The record cannot be read at present; try again later.")
    }
}
