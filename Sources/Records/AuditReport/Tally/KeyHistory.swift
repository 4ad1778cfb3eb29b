public import AuditChain

/// The history of one key according to the record, in chronological order.
public struct KeyHistory: Sendable, Equatable {
    public enum Step: Sendable, Equatable {
        case generated
        case imported
        case adopted
        case requestMade
        case certificate
        case state(String)
        case objectsDestroyed
        /// A statement, not a step: the state that the key had when earlier records were archived (event `key_states`).
        case stated(String)
    }

    /// A step that was carried out, or a statement of the key's state. Refused steps are omitted.
    public struct Event: Sendable, Equatable {
        public let step: Step
        public let time: AuditTime
        public let place: RecordPlace
        /// The caller's name in the record; nil if the daemon acted.
        public let by: String?
        public let approval: String?
        public let reason: String?
        /// The time until which a deactivated key still decrypts; nil if there is none, or if it is not recorded.
        public var cutOff: AuditTime?
        /// True for the change that made a waiting key active.
        var isFirstActivation = false
    }

    /// The facts about a key in the newest record that has them. Records of older versions have none.
    struct Facts: Sendable, Equatable {
        let time: AuditTime
        let algorithm: String
        let bits: Int?
        let origin: String?
    }

    /// The newest recorded certificate's end, issuer and SHA-256, as the record has them.
    struct Certificate: Sendable, Equatable {
        let time: AuditTime
        let end: String
        let issuer: String?
        let digest: String?
    }

    public let key: AuditDigest
    public internal(set) var merchant: String?
    /// True if a record names the key's wallet, Google Pay. Records of earlier versions do not name it.
    private(set) var isGooglePay = false
    public internal(set) var events: [Event] = []
    /// The number of certificate requests and certificates beyond ``maximumEvents``, which are counted but not kept. All
    /// other steps are kept.
    public internal(set) var omitted = 0
    private(set) var facts: Facts?
    private(set) var certificate: Certificate?

    static let maximumEvents = 200

    init(key: AuditDigest) { self.key = key }

    /// The step by which the key entered the ledger.
    public var arrival: Event? {
        events.first { [.generated, .imported, .adopted].contains($0.step) }
    }

    /// The event by which the key entered the ledger, if the record of that step, or a later one, shows it.
    var came: String? {
        let origins = ["generated": "key_generate", "imported": "key_import", "adopted": "key_adopt"]
        return arrival?.step.name ?? facts?.origin.flatMap { origins[$0] }
    }

    /// The step from which the key was in use: its first certificate, its import or its adoption, or for a Google Pay
    /// key the statement that it is in Google's console. Nil if the export does not contain that step.
    public var activation: Event? {
        let stated = events.first(where: \.isFirstActivation)
        if isGooglePay || stated != nil { return stated }
        let isGenerated =
            if let arrival { arrival.step == .generated } else { statement?.step == .stated("pre-activation") }
        return events.first { event in
            isGenerated ? event.step == .certificate : event.step == .imported || event.step == .adopted
        }
    }

    public func first(_ state: String) -> Event? { events.first { $0.step == .state(state) } }

    /// The first statement of the key's state. It exists only if records were archived, so nil means that the export
    /// may contain all of the key's records.
    public var statement: Event? {
        events.first(where: \.isStatement)
    }

    /// The key's first deactivation, or the first statement that it was deactivated. Later releases with the key are
    /// late.
    public var superseded: Event? {
        events.first { $0.step == .state("deactivated") || $0.step == .stated("deactivated") }
    }

    /// The key's last state according to the record.
    public var state: String {
        let said: String? =
            switch lastState?.step {
            case .state(let state), .stated(let state): state
            default: nil
            }
        guard let said, said != "pre-activation" else { return activation == nil ? "pre-activation" : "active" }
        return said
    }

    /// The last change or statement of the key's state.
    var lastState: Event? {
        events.last { event in
            switch event.step {
            case .state, .stated: true
            default: false
            }
        }
    }

    /// Takes the facts of a record of the key's arrival or certificate.
    mutating func takeFacts(_ entry: AuditEntry) {
        if entry.namesGooglePay { isGooglePay = true }
        guard let algorithm = entry.details["algorithm"]?.stringValue else { return }
        if facts.map({ $0.time <= entry.time }) ?? true {
            facts = Facts(
                time: entry.time, algorithm: algorithm, bits: entry.details["bits"]?.numberValue?.int,
                origin: entry.details["origin"]?.stringValue)
        }
        if let end = entry.details["certificateEnd"]?.stringValue, certificate.map({ $0.time <= entry.time }) ?? true {
            certificate = Certificate(
                time: entry.time, end: end, issuer: entry.details["issuer"]?.stringValue,
                digest: entry.details["certificateSha256"]?.stringValue)
        }
    }

    mutating func add(_ event: Event) {
        guard events.count < Self.maximumEvents || !isMinor(event) else {
            omitted += 1
            return
        }
        // Insert by time, since the export contains the records of one node after those of the other.
        let place = events.lastIndex { $0.time <= event.time }.map { $0 + 1 } ?? 0
        events.insert(event, at: place)
        if event.isStatement { removeRedundantStatements() }
    }

    /// Returns true for a step that does not change the key's state: a certificate request, or a certificate after the
    /// first one.
    private func isMinor(_ event: Event) -> Bool {
        event.step == .requestMade || event.step == .certificate && events.contains { $0.step == .certificate }
    }

    /// Keeps only the first and last statement and the first of a deactivation. No figure depends on the others, which
    /// would accumulate, since each archive repeats the states of all keys.
    private mutating func removeRedundantStatements() {
        let (first, last) = (statement, events.last(where: \.isStatement))
        let deactivated = events.first { $0.step == .stated("deactivated") }
        events.removeAll { $0.isStatement && ![first, last, deactivated].contains($0) }
    }
}

extension KeyHistory.Event {
    var isStatement: Bool {
        if case .stated = step { true } else { false }
    }

    /// Returns nil if the record is not a step in a key's history, or if the step was refused.
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
        cutOff = entry.details["cutOff"]?.stringValue.flatMap(AuditTime.init(stored:))
        isFirstActivation = entry.isFirstActivation
    }

    /// Makes the statement of one key's state from a `key_states` record.
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
    /// True for a change of a key's state, from waiting for its activation to active.
    var isFirstActivation: Bool {
        details["from"]?.stringValue == AuditKeyState.preActivation.rawValue
            && details["to"]?.stringValue == AuditKeyState.active.rawValue
    }

    /// The access rule's name, or the uid.
    var callerText: String? {
        caller.map { caller in caller.name?.text ?? "uid \(caller.uid)" }
    }
}
