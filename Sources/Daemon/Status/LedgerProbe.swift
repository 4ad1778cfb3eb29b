import Ledger
import Synchronization

/// Whether the ledger can be written now, for readiness.
///
/// Looking at the ledger writes to its disk, and anybody may ask: one look is under way at a time, and its finding
/// serves all who ask within a second. While a look hangs, those who ask are told so, without another look and without
/// waiting longer than ``patience`` after it began.
final class LedgerProbe: Sendable {
    private struct State {
        var last: (at: ContinuousClock.Instant, fault: String?)?
        var running: (since: ContinuousClock.Instant, look: Task<String?, Never>)?
    }

    static let slow = "The ledger does not answer. Look at its disk, and at other programs that use its file."

    private static let lookLasts = Duration.seconds(1)
    private let patience: Duration
    private let look: @Sendable () async throws(LedgerFailure) -> Void
    private let faults: FaultLog
    private let state = Mutex(State())

    /// - Parameters:
    ///   - patience: how long anybody waits for a look.
    ///   - look: throws when the ledger cannot be used.
    init(
        patience: Duration = .seconds(2), faults: FaultLog,
        look: @escaping @Sendable () async throws(LedgerFailure) -> Void
    ) {
        self.patience = patience
        self.faults = faults
        self.look = look
    }

    /// What is wrong with the ledger; nil when nothing is.
    func fault() async -> String? {
        enum Found {
            case known(String?)
            case running(since: ContinuousClock.Instant, Task<String?, Never>)
        }
        let now = ContinuousClock.now
        let found = state.withLock { state -> Found in
            if let running = state.running { return .running(since: running.since, running.look) }
            if let last = state.last, last.at.duration(to: now) < Self.lookLasts { return .known(last.fault) }
            let look = Task { await self.finding() }
            state.running = (now, look)
            return .running(since: now, look)
        }
        switch found {
        case .known(let fault): return fault
        case .running(let since, let look):
            let left = patience - since.duration(to: now)
            // A fault or nil, within an optional that is nil when nothing was found in time.
            if left > .zero, let fault = await look.value(within: left) { return fault }
            faults.began(FaultLog.ledger, Self.slow)
            return Self.slow
        }
    }

    private func finding() async -> String? {
        var fault: String?
        do throws(LedgerFailure) {
            try await look()
            faults.ended(FaultLog.ledger)
        } catch {
            fault = error.description
            faults.began(FaultLog.ledger, error.description)
        }
        state.withLock { state in
            state.last = (.now, fault)
            state.running = nil
        }
        return fault
    }
}
