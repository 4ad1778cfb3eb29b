public import AuditChain

/// What the record says of one key's life, in the order of time.
public struct KeyHistory: Sendable, Equatable {
    public enum Step: Sendable, Equatable {
        case generated
        case imported
        case adopted
        case requestMade
        case certificate
        case state(String)
        case objectsDestroyed
        /// No step, but the state that it had: said when the records that brought it there left the ledger for an archive.
        case stated(String)
    }

    /// One step that was taken, not one that was refused.
    public struct Event: Sendable, Equatable {
        public let step: Step
        public let time: AuditTime
        public let place: RecordPlace
        /// Who asked; nil where the daemon acted.
        public let by: String?
        public let approval: String?
        public let reason: String?
    }

    public let key: AuditDigest
    public internal(set) var merchant: String?
    public internal(set) var events: [Event] = []
    /// Signing requests and certificates beyond ``mostEvents``, which are counted and not kept. All other steps are kept.
    public internal(set) var omitted = 0

    static let mostEvents = 200

    init(key: AuditDigest) { self.key = key }

    /// How it came into the ledger.
    public var arrival: Event? {
        events.first { [.generated, .imported, .adopted].contains($0.step) }
    }

    /// From when it served: with its certificate, or with its adoption. Nil where that was before the export's records.
    public var activation: Event? {
        let isGenerated =
            if let arrival { arrival.step == .generated } else { statement?.step == .stated("pre-activation") }
        return events.first { event in
            isGenerated ? event.step == .certificate : event.step == .imported || event.step == .adopted
        }
    }

    public func first(_ state: String) -> Event? { events.first { $0.step == .state(state) } }

    /// The first that is stated of it; nil where all its records may be here.
    public var statement: Event? {
        events.first(where: \.isStatement)
    }

    /// From when its releases are late ones: its first deactivation, or the first statement that it was deactivated before.
    public var superseded: Event? {
        events.first { $0.step == .state("deactivated") || $0.step == .stated("deactivated") }
    }

    /// Its state by the record alone.
    public var state: String {
        let said = events.reversed().lazy.compactMap { event in
            switch event.step {
            case .state(let state), .stated(let state): state
            default: nil
            }
        }.first
        guard let said, said != "pre-activation" else { return activation == nil ? "pre-activation" : "active" }
        return said
    }

    mutating func add(_ event: Event) {
        guard events.count < Self.mostEvents || !isMinor(event) else {
            omitted += 1
            return
        }
        // Nodes are read one after the other, and their records belong between each other by time.
        let place = events.lastIndex { $0.time <= event.time }.map { $0 + 1 } ?? 0
        events.insert(event, at: place)
        if event.isStatement { leaveOutStatements() }
    }

    /// Returns true for a step that decides nothing: a signing request, or a certificate after the first one.
    private func isMinor(_ event: Event) -> Bool {
        event.step == .requestMade || event.step == .certificate && events.contains { $0.step == .certificate }
    }

    /// A state is stated with each archive: of all statements, those that anything goes by.
    private mutating func leaveOutStatements() {
        let (first, last) = (statement, events.last(where: \.isStatement))
        let deactivated = events.first { $0.step == .stated("deactivated") }
        events.removeAll { $0.isStatement && ![first, last, deactivated].contains($0) }
    }
}

extension KeyHistory.Event {
    var isStatement: Bool {
        if case .stated = step { true } else { false }
    }

    /// Nil for a record that is no step of a key's life, or of one that was refused.
    init?(_ entry: AuditEntry) {
        guard entry.outcome == AuditOutcome.ok.text, entry.publicKeyHash != nil else { return nil }
        switch AuditEvent.Name(rawValue: entry.event) {
        case .keyGenerate: step = .generated
        case .keyImport: step = .imported
        case .keyAdopt: step = .adopted
        case .csrCreate: step = .requestMade
        case .certificateImport: step = .certificate
        case .keyStateChange:
            guard let state = entry.details["to"]?.stringValue else { return nil }
            step = .state(state)
        case .keyObjectsDestroy: step = .objectsDestroyed
        default: return nil
        }
        time = entry.time
        place = RecordPlace(entry)
        by = entry.callerText
        approval = entry.details["approval"]?.stringValue
        reason = entry.details["reason"]?.stringValue
    }

    /// What a `key_states` record says of one key.
    init(_ entry: AuditEntry, states state: AuditKeyState) {
        step = .stated(state.rawValue)
        time = entry.time
        place = RecordPlace(entry)
        by = nil
        approval = nil
        reason = nil
    }
}

extension AuditEntry {
    /// The access rule's name, or the uid.
    var callerText: String? {
        caller.map { caller in caller.name?.text ?? "uid \(caller.uid)" }
    }
}
