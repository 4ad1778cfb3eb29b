import AuditChain
import Crypto
import Foundation
import Refusals

/// A simulated year of three nodes. It decides on events, counts them, and records them.
final class Year {
    static let hour: Int64 = 3_600_000
    static let day = 24 * hour
    static let days = 365
    /// The HSM token's serial number.
    static let serialNumber = "1a2b3c4d5e6f"
    /// The HSM token's name in the configuration.
    static let hsmToken = AuditText("primary")

    let wanted: Int
    let seed: UInt64
    let start: Int64
    var random: SplitMix
    var truth: Truth
    var totals = Totals()
    let nodes: [NodeRecord]
    /// All keys that were ever made, the oldest first.
    var keys: [MerchantKey] = []
    var merchants: [Merchant]
    var identity: MerchantKey?
    let tokenLog: TokenLog
    /// The number of records that the remaining acts will write.
    var actRecordsLeft = 0
    /// Recent releases, which callers can repeat or replay.
    var recent: [Release] = []
    /// The pending approvals' positions in the truth file, by the names that the story gives them.
    var approvals: [String: Int] = [:]
    /// The record in which a node's former audit key announces its successor.
    var auditKeyAnnouncement: Truth.Place?
    /// The number of the configuration file in force.
    var configuration = 1
    private var nextRecent = 0

    struct Release {
        let transaction: AuditDigest
        let reference: AuditDigest
        let caller: Int
        let key: MerchantKey
        let time: Int64
    }

    init(records: Int, seed: UInt64, sealAfter: Int64, start: AuditTime, directory: URL) throws {
        wanted = records
        self.seed = seed
        self.start = start.milliseconds
        random = SplitMix(seed: seed)
        truth = Truth(
            seed: seed, start: start,
            end: AuditTime(milliseconds: start.milliseconds + Int64(Self.days) * Self.day))
        tokenLog = try TokenLog(
            directory.appending(path: "uses.jsonl"), since: self.start - Self.hour,
            until: self.start + Int64(Self.days) * Self.day + Self.hour)
        var nodes: [NodeRecord] = []
        for number in 1...3 {
            nodes.append(
                try NodeRecord(
                    name: "node-\(number)", key: try Self.key(&random), sealAfter: sealAfter, directory: directory))
        }
        self.nodes = nodes
        merchants = [
            Merchant(identifier: "merchant.com.example.fashion", algorithm: "EC", share: 0.38),
            Merchant(identifier: "merchant.com.example.grocery", algorithm: "EC", share: 0.26),
            Merchant(identifier: "merchant.com.example.books", algorithm: "EC", share: 0.16),
            Merchant(identifier: "merchant.com.example.tickets", algorithm: "EC", share: 0.12),
            Merchant(identifier: "merchant.com.example.garden", algorithm: "RSA", share: 0.08),
        ]
    }

    /// Returns a key that is derived from the seed. Random bytes are an invalid key only with a probability of 2^-32.
    static func key(_ random: inout SplitMix) throws -> P256.Signing.PrivateKey {
        try P256.Signing.PrivateKey(rawRepresentation: random.bytes(32))
    }

    var end: Int64 { start + Int64(Self.days) * Self.day }

    private var written: Int { nodes.reduce(0) { $0 + $1.sequence } }

    /// The number of records that callers' requests will still write this year. Records of acts are not included.
    private var left: Int { max(0, wanted - written - actRecordsLeft) }

    // MARK: The run

    /// Runs the year hour by hour. It distributes the remaining records again in each hour, so that the total is exact
    /// even if a ledger is lost.
    func live(_ story: [Act]) async throws {
        var acts = story.sorted { ($0.time, $0.number) < ($1.time, $1.number) }[...]
        actRecordsLeft = acts.reduce(0) { $0 + $1.records }
        let weights = (0..<Self.days * 24).map(weight)
        var weightLeft = weights.reduce(0, +)
        var fraction = 0.0
        for (hour, weight) in weights.enumerated() {
            let beginning = start + Int64(hour) * Self.hour
            var count = left
            if hour < weights.count - 1 {
                let share = weight > 0 ? Double(left) * weight / weightLeft + fraction : fraction
                count = weight > 0 ? Int(share) : 0
                fraction = share - Double(count)
            }
            weightLeft -= weight
            for number in 0..<count {
                let moment = (Double(number) + random.unit()) / Double(count)
                let now = beginning + Int64(moment * Double(Self.hour - 1))
                try await perform(&acts, until: now)
                try await arrival(at: now)
            }
            try await perform(&acts, until: beginning + Self.hour - 1)
        }
        for node in nodes {
            try await node.sealIfDue(before: end)
            try await node.seal(at: end)
            try noteSeals(of: node)
            try node.close()
            truth.nodes.append(
                Truth.Node(
                    node: node.name, first: 1, last: node.sequence, checkpoints: node.checkpoints,
                    keyIds: node.keys.map(\.keyId.hex)))
        }
        try tokenLog.close()
        truth.records = written
        truth.uses = totals.allUses
        truth.events = totals.allEvents
        truth.keys = keys.map(\.life)
    }

    private func perform(_ acts: inout ArraySlice<Act>, until now: Int64) async throws {
        while let act = acts.first, act.time <= now {
            acts.removeFirst()
            actRecordsLeft -= act.records
            let before = written
            try await act.perform(self, act.time)
            guard written - before == act.records || nodes.contains(where: { $0.loss != nil }) else {
                throw YearFailure("act \(act.number) left \(written - before) records and not \(act.records)")
            }
        }
    }

    // MARK: Records

    func text(_ time: Int64) -> String { AuditTime(milliseconds: time).text }

    /// Records an event on a node, with the time of the node's clock.
    ///
    /// - Returns: the record's position; nil if it will be lost.
    @discardableResult
    func record(
        _ node: Int, _ now: Int64, _ event: AuditEvent, _ outcome: AuditOutcome = .ok, caller: AuditCaller? = nil,
        merchant: String? = nil, key: AuditDigest? = nil, transaction: AuditDigest? = nil,
        protection: AuditProtection? = nil, usesToken: Bool = false
    ) async throws -> Truth.Place? {
        let node = nodes[node]
        let time = node.clock(now)
        let sequence = try await node.append(
            AuditRecord(
                time: time, event: event, outcome: outcome, caller: caller, merchant: merchant.map { AuditText($0) },
                publicKeyHash: key, transactionId: transaction, protection: protection,
                hsmToken: usesToken ? Self.hsmToken : nil), at: now)
        if let key, event.name == .csrCreate || usesToken && [.decrypt, .tlsSignature].contains(event.name) {
            // The HSM logs the use before the daemon records it, so the log has the use even if the record is lost.
            let known = self.key(key)
            try tokenLog.use(key, event.name == .decrypt ? known?.opening ?? .derive : .sign, at: now)
            if sequence == nil { known?.life.lostUses += 1 }
        }
        try noteSeals(of: node)
        guard let sequence else {
            node.loss?.records += 1
            return nil
        }
        totals.count(event.name, outcome, caller: caller?.name?.text)
        return Truth.Place(node: node.name, sequence: sequence, time: time.text)
    }

    /// Adds a signature to the HSM's log for each audit checkpoint that the node has made since the last call of this
    /// method.
    func noteSeals(of node: NodeRecord) throws {
        for seal in node.takeSeals() { try tokenLog.use(seal.keyId, .sign, at: seal.time) }
    }

    private func key(_ hash: AuditDigest) -> MerchantKey? { keys.first { $0.hash == hash } }

    /// Adds an insider's uses of a key to the HSM's log. The daemon does not record them.
    func useUnrecorded(_ key: MerchantKey, _ count: Int, _ now: Int64) throws {
        key.life.unrecordedUses += count
        for number in 0..<count { try tokenLog.use(key.hash, key.opening, at: now + Int64(number) * 1000) }
    }

    /// Records an act of a person, or of the daemon if `person` is nil. `key` is nil if the act concerns no key.
    @discardableResult
    func act(
        _ node: Int, _ now: Int64, _ event: AuditEvent, _ outcome: AuditOutcome = .ok, by person: Person? = nil,
        key: MerchantKey? = nil, usesToken: Bool = false
    ) async throws -> Truth.Place? {
        try await record(
            node, now, event, outcome, caller: person?.caller, merchant: key?.merchant, key: key?.hash,
            usesToken: usesToken)
    }

    /// Records a payment caller's request. `key` is nil if the daemon refused the request before it knew the key.
    func use(
        _ node: Int, _ now: Int64, _ event: AuditEvent, _ outcome: AuditOutcome, _ caller: PaymentCaller,
        merchant: String? = nil, key: AuditDigest? = nil, transaction: AuditDigest? = nil,
        protection: AuditProtection? = nil, usesToken: Bool = false
    ) async throws -> Bool {
        let place = try await record(
            node, now, event, outcome, caller: caller.caller, merchant: merchant, key: key, transaction: transaction,
            protection: protection, usesToken: usesToken)
        let isSignature = event.name == .tlsSignature
        guard place != nil else {
            switch outcome {
            case .ok where isSignature: nodes[node].loss?.signatures += 1
            case .ok: nodes[node].loss?.released += 1
            case .repeated: nodes[node].loss?.repeated += 1
            case .refused: break
            }
            return false
        }
        totals.count(outcome, isSignature: isSignature, key: key, caller: caller.name)
        return true
    }

    func remember(_ release: Release) {
        if recent.count < 64 {
            recent.append(release)
        } else {
            recent[nextRecent] = release
            nextRecent = (nextRecent + 1) % 64
        }
    }
}

/// An event of the story, at a fixed time.
struct Act {
    /// The time in milliseconds since 1970.
    let time: Int64
    /// The order among acts of the same time, the lowest first.
    let number: Int
    /// The number of records that the act writes.
    let records: Int
    let perform: (Year, Int64) async throws -> Void
}
