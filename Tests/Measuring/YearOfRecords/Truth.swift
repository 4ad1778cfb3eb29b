import AuditChain
import Refusals

/// The actual events of the year, counted when they are decided and before they are recorded.
struct Truth: Encodable {
    /// The position of an event in the record, and its time there.
    struct Place: Encodable {
        let node: String
        let sequence: Int
        let time: String
    }

    /// A step in a key's life.
    struct Step: Encodable {
        let at: Place
        /// The person; nil for the daemon itself.
        var by: String?
        var approval: String?
        /// The key that replaced it.
        var successor: String?
    }

    struct Key: Encodable {
        let publicKeyHash: String
        let merchant: String
        let use: String
        let algorithm: String
        var created: Step?
        var activated: Step?
        /// The activation of its successor. From then on wallets use that one.
        var succeeded: Step?
        /// Its deactivation after that: it opens the wallets' pending payment tokens until its cut-off.
        var superseded: Step?
        var suspended: [Step] = []
        var resumed: [Step] = []
        var deactivated: Step?
        var compromised: Step?
        var destroyed: Step?
        /// The destruction of its objects on the other nodes.
        var objectsDestroyed: [Step] = []
        var releasesAfterSuccession = 0
        var releasesAfterSupersession = 0
        var repeatsAfterSupersession = 0
        /// Uses in the HSM without the daemon, which have no record.
        var unrecordedUses = 0
        /// Uses whose records were lost with a ledger.
        var lostUses = 0
    }

    /// One caller's uses of one key, by `decrypt` and `tls_signature`.
    struct Use: Encodable {
        /// Nil for a refusal before the key was known.
        let publicKeyHash: String?
        let caller: String
        var released = 0
        var repeated = 0
        var signatures = 0
        /// Those of `released` and `repeated` under a superseded key.
        var afterSuperseded = 0
        /// Refusals of event `decrypt` and `tls_signature` by code.
        var refusals: [String: Int] = [:]
        /// Those of `refusals` that are `transaction_replayed`.
        var replays = 0
    }

    struct Node: Encodable {
        let node: String
        let first: Int
        let last: Int
        let checkpoints: Int
        let keyIds: [String]
    }

    struct Event: Encodable {
        let event: String
        let outcome: String
        /// Nil for the daemon itself, or a peer that no rule matched.
        let caller: String?
        var records = 0
    }

    struct Approval: Encodable {
        let approval: String
        let operation: String
        var publicKeyHash: String?
        let requested: Place
        let by: String
        /// approve, reject, withdraw or expire.
        var decision: String?
        var decided: Place?
        var decidedBy: String?
    }

    /// The content of a lost ledger.
    struct Loss: Encodable {
        let node: String
        /// The last record in the copy.
        let copyEndsAt: Int
        let copiedAt: String
        var lostAt = ""
        var records = 0
        var released = 0
        var repeated = 0
        var signatures = 0
    }

    struct Restore: Encodable {
        let at: Place
        let by: String
        let approval: String
        let ledgerSequence: Int
        let tokenSequence: Int
        let servedFrom: String
    }

    struct ClockStep: Encodable {
        let node: String
        let secondsAhead: Int
        /// The records in between come from a clock that was ahead.
        let lastBefore: Int
        var lastAhead = 0
        var accepted: Step?
    }

    struct Life: Encodable {
        let at: Place
        let version: String
        /// True for a start that follows another one without a stop.
        var isAfterCrash = false
    }

    struct Configuration: Encodable {
        let at: Place
        /// Nil if it was refused.
        let fileSha256: String?
        let isReload: Bool
    }

    struct ConfigurationChange: Encodable {
        let at: Place
        let name: String
        /// Nil if the name is new.
        let before: String?
        let after: String
    }

    struct WorkerCrash: Encodable {
        let node: String
        let time: String
    }

    struct Summaries: Encodable {
        var records = 0
        var refusals: [String: Int] = [:]
    }

    struct Dropped: Encodable {
        let at: Place
        let count: Int
        let since: String
    }

    struct OutsideHabit: Encodable {
        let caller: String
        let from: String
        var records = 0
    }

    let seed: UInt64
    let start: String
    let end: String
    var records = 0
    var nodes: [Node] = []
    var uses: [Use] = []
    var keys: [Key] = []
    /// Every record, by event, outcome and caller.
    var events: [Event] = []
    var refusalSummaries = Summaries()
    /// The `transaction_replayed` refusals within the hours of the burst.
    var burstReplays = 0
    var approvals: [Approval] = []
    /// The number that ended by approve, reject, withdraw and expire.
    var approvalsByDecision: [String: Int] = [:]
    var restores: [Restore] = []
    var losses: [Loss] = []
    var clockSteps: [ClockStep] = []
    var starts: [Life] = []
    var stops: [Life] = []
    var configurations: [Configuration] = []
    var configurationChanges: [ConfigurationChange] = []
    var workerCrashes: [WorkerCrash] = []
    var droppedRecords: [Dropped] = []
    var outsideHabit: [OutsideHabit] = []

    init(seed: UInt64, start: AuditTime, end: AuditTime) {
        self.seed = seed
        self.start = start.text
        self.end = end.text
    }
}

/// The totals during the count.
struct Totals {
    private struct UseName: Hashable {
        let key: AuditDigest?
        let caller: String
    }

    private struct EventName: Hashable {
        let event: AuditEvent.Name
        let outcome: String
        let caller: String?
    }

    private var uses: [UseName: Truth.Use] = [:]
    private var events: [EventName: Int] = [:]

    mutating func countSuperseded(key: AuditDigest, caller: String) {
        uses[UseName(key: key, caller: caller)]?.afterSuperseded += 1
    }

    mutating func count(_ outcome: AuditOutcome, isSignature: Bool, key: AuditDigest?, caller: String) {
        let name = UseName(key: key, caller: caller)
        var use = uses[name] ?? Truth.Use(publicKeyHash: key?.base64, caller: caller)
        switch outcome {
        case .ok where isSignature: use.signatures += 1
        case .ok: use.released += 1
        case .repeated: use.repeated += 1
        case .refused(let code):
            use.refusals[code.rawValue, default: 0] += 1
            if code == .transactionReplayed { use.replays += 1 }
        }
        uses[name] = use
    }

    mutating func count(_ event: AuditEvent.Name, _ outcome: AuditOutcome, caller: String?) {
        events[EventName(event: event, outcome: outcome.text, caller: caller), default: 0] += 1
    }

    /// The uses in an order that does not depend on the process.
    var allUses: [Truth.Use] {
        uses.values.sorted { ($0.publicKeyHash ?? "", $0.caller) < ($1.publicKeyHash ?? "", $1.caller) }
    }

    var allEvents: [Truth.Event] {
        events.map { name, records in
            Truth.Event(event: name.event.rawValue, outcome: name.outcome, caller: name.caller, records: records)
        }.sorted { ($0.event, $0.outcome, $0.caller ?? "") < ($1.event, $1.outcome, $1.caller ?? "") }
    }
}
