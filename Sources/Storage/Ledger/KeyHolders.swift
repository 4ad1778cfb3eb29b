public import AuditChain
public import Foundation
import Locks
public import PaymentToken

/// A node whose HSM tokens contain a certain key.
public struct KeyHolder: Sendable, Equatable {
    public let node: String
    /// The time at which the node last reported the key, according to the ledger's clock.
    public let seenAt: Date

    public init(node: String, seenAt: Date) {
        self.node = node
        self.seenAt = seenAt
    }
}

/// A ledger that a single node uses. The node's reports are kept in memory only, since no other node reads them.
public protocol SingleNodeLedger: Ledger {
    var nodeState: SingleNodeState { get }
}

/// This node's reports: the keys in its HSM tokens, and its widest signing-time window.
public final class SingleNodeState: Sendable {
    private struct State {
        var heldKeys: [PublicKeyHash: Date] = [:]
        var widestWindow: Duration?
    }

    private let state = Mutex(State())

    public init() {}

    fileprivate func set(heldKeys: Set<PublicKeyHash>, at now: Date) {
        state.withLock { $0.heldKeys = Dictionary(uniqueKeysWithValues: heldKeys.map { ($0, now) }) }
    }

    fileprivate var heldKeys: [PublicKeyHash: Date] { state.withLock { $0.heldKeys } }

    /// This node's widest signing-time window; nil while a window is off, and until the daemon first reports it.
    public internal(set) var widestWindow: Duration? {
        get { state.withLock { $0.widestWindow } }
        set { state.withLock { $0.widestWindow = newValue } }
    }
}

extension SingleNodeLedger {
    public var isShared: Bool { false }

    public func update(heldKeys: Set<PublicKeyHash>) async throws(LedgerFailure) {
        nodeState.set(heldKeys: heldKeys, at: Date())
    }

    public func keyHolders() async throws(LedgerFailure) -> [PublicKeyHash: [KeyHolder]] {
        nodeState.heldKeys.mapValues { [KeyHolder(node: node, seenAt: $0)] }
    }

    public func update(widestWindow: Duration?) async throws(LedgerFailure) { nodeState.widestWindow = widestWindow }

    /// Does nothing. A stored hold would only stop other nodes, and a single-node ledger has none. At every start, the
    /// daemon again compares the ledger with the remembered head.
    public func hold(_ finding: LedgerHold.Finding) async throws(LedgerFailure) {}

    public func releaseStatus() async throws(LedgerFailure) -> LedgerReleaseStatus { releaseStatus(withHolds: []) }

    package func releaseStatus(withHolds holds: [LedgerHold]) -> LedgerReleaseStatus {
        var status = LedgerReleaseStatus()
        status.holds = holds
        if nodeState.widestWindow == nil { status.unboundedNodes = [node] }
        return status
    }

    public func confirm(remembered: Checkpoint?) async throws(LedgerFailure) -> HeadComparison {
        guard let remembered else { return .continues }
        return try await compare(with: remembered)
    }
}
