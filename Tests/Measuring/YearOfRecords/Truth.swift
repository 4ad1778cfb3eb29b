import AuditChain
import Refusals

/// The content of the truth file: the actual events of the year. The generator counts an event when it decides on it,
/// before it records the event.
struct Truth: Encodable {
    /// The position of an event in the record, and its time there.
    struct Place: Encodable {
        let node: String
        let sequence: Int
        let time: String
    }

    /// A step in the life of a key.
    struct Step: Encodable {
        let at: Place
        /// The person who took the step; nil for the daemon.
        var by: String?
        var approval: String?
        /// The key that replaced this one; nil if none did.
        var successor: String?
    }

    struct Key: Encodable {
        let publicKeyHash: String
        let merchant: String
        let use: String
        let algorithm: String
        var created: Step?
        var activated: Step?
        /// The activation of the successor, which wallets use from then on.
        var succeeded: Step?
        /// The deactivation after a succession. Until its cut-off, the key still decrypts payment tokens that wallets
        /// made earlier.
        var superseded: Step?
        var suspended: [Step] = []
        var resumed: [Step] = []
        var deactivated: Step?
        var compromised: Step?
        var destroyed: Step?
        /// The destruction of the key's objects in the HSM tokens of the other nodes.
        var objectsDestroyed: [Step] = []
        /// The releases and repeated releases.
        var usesAfterSuccession = 0
        var releasesAfterSupersession = 0
        var repeatsAfterSupersession = 0
        /// The number of uses in the HSM without the daemon, which have no record.
        var unrecordedUses = 0
        /// The number of uses whose records were lost with a ledger.
        var lostUses = 0
    }

    /// The uses of one key by one caller, in events `decrypt` and `tls_signature`.
    struct Use: Encodable {
        /// The key; nil for refusals before the key was known.
        let publicKeyHash: String?
        let caller: String
        var released = 0
        var repeated = 0
        var signatures = 0
        /// The number of the `released` and `repeated` requests that used the key after it was superseded.
        var afterSuperseded = 0
        /// The numbers of refusals of events `decrypt` and `tls_signature`, by code.
        var refusals: [String: Int] = [:]
        /// The number of refusals with the code `transaction_replayed`.
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
        /// The caller; nil for the daemon, or for a peer that no rule matched.
        let caller: String?
        var records = 0
    }

    struct Approval: Encodable {
        let approval: String
        let operation: String
        var publicKeyHash: String?
        let requested: Place
        let by: String
        /// The decision: approve, reject, withdraw or expire; nil while the request is pending.
        var decision: String?
        var decided: Place?
        var decidedBy: String?
    }

    /// A lost ledger, and the records that were lost with it.
    struct Loss: Encodable {
        let node: String
        /// The sequence of the last record in the backup.
        let copyEndsAt: Int
        let copiedAt: String
        var lostAt = ""
        var records = 0
        /// The audit checkpoints that were lost. The HSM's log has their signatures.
        var seals = 0
        /// The lost records that a lost audit checkpoint had sealed.
        var sealed = 0
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
        /// The sequence of the last record before the clock was set ahead. The records up to the correction have times
        /// of the wrong clock.
        let lastBefore: Int
        var lastAhead = 0
        /// The audit checkpoints with the wrong clock's time. The HSM's log has the actual time of their signatures.
        var seals = 0
        var accepted: Step?
    }

    struct Life: Encodable {
        let at: Place
        let version: String
        /// True if the daemon's previous run ended without a stop.
        var isAfterCrash = false
    }

    struct Configuration: Encodable {
        let at: Place
        /// The file's SHA-256; nil if the file was refused.
        let fileSha256: String?
        let isReload: Bool
    }

    struct ConfigurationChange: Encodable {
        let at: Place
        let name: String
        /// The previous value; nil if the setting is new.
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
    /// The number of records for each event, outcome and caller.
    var events: [Event] = []
    var refusalSummaries = Summaries()
    /// The number of `transaction_replayed` refusals within the hours of ``Year/burst``.
    var burstReplays = 0
    var approvals: [Approval] = []
    /// The numbers of approvals by the decision that ended them: approve, reject, withdraw or expire.
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

/// The running totals of the year's events.
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

    /// The uses, sorted, because the order of a dictionary differs in each process.
    var allUses: [Truth.Use] {
        uses.values.sorted { ($0.publicKeyHash ?? "", $0.caller) < ($1.publicKeyHash ?? "", $1.caller) }
    }

    var allEvents: [Truth.Event] {
        events.map { name, records in
            Truth.Event(event: name.event.rawValue, outcome: name.outcome, caller: name.caller, records: records)
        }.sorted { ($0.event, $0.outcome, $0.caller ?? "") < ($1.event, $1.outcome, $1.caller ?? "") }
    }
}
