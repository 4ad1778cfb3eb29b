import AuditChain
import Crypto
import Refusals

// Acts of persons and of the daemon. Each function writes the audit records of one act and adds the act to the truth
// file. All records of an act have the same time.
extension Year {
    /// Returns the position of an act's record. Throws if `place` is nil, because the story must not put this act into
    /// a ledger that will be lost.
    func kept(_ place: Truth.Place?) throws -> Truth.Place {
        guard let place else { throw YearFailure("the story loses what it needs") }
        return place
    }

    // MARK: Nodes

    /// Starts the daemon. Writes 3 records.
    func begin(_ node: Int, _ now: Int64, _ version: String, isAfterCrash: Bool = false) async throws {
        nodes[node].isDown = false
        let start = AuditEvent.start(version: AuditText(version), programs: Self.programs(version))
        let place = try kept(await act(node, now, start))
        truth.starts.append(Truth.Life(at: place, version: version, isAfterCrash: isAfterCrash))
        try await configure(node, now, isReload: false)
    }

    /// The programs of a version, with invented digests.
    static func programs(_ version: String) -> ProgramDigests {
        func digest(_ file: String) -> AuditDigest { .of("\(file) \(version)".utf8) }
        return ProgramDigests(
            daemon: digest("paytokend"), worker: digest("paytokend-hsm"), sbom: digest("sbom.cdx.json"),
            modules: ["primary": .of("libsofthsm2.so".utf8)])
    }

    /// Records the HSM token's description. Writes 1 record.
    func describeToken(_ node: Int, _ now: Int64) async throws {
        let softHSM = RecordedHSMToken(
            label: AuditText("payments"), serialNumber: AuditText(Self.serialNumber),
            manufacturer: AuditText("SoftHSM project"), model: AuditText("SoftHSM v2"),
            hardwareVersion: AuditText("2.6"),
            firmwareVersion: AuditText("2.6"), library: AuditText("Implementation of PKCS11 2.6"), tierECv1: .b,
            tierRSAv1: .c, shortcomings: [])
        try await act(node, now, .tokenAttributes(softHSM), usesToken: true)
    }

    /// Stops the daemon. Writes 1 record.
    func end(_ node: Int, _ now: Int64, _ version: String) async throws {
        let place = try kept(await act(node, now, .stop))
        truth.stops.append(Truth.Life(at: place, version: version))
        try await seal(node, now)
        nodes[node].isDown = true
    }

    /// Loads a configuration. Writes 2 records, or 1 if the file is refused.
    func configure(_ node: Int, _ now: Int64, isReload: Bool, isRefused: Bool = false) async throws {
        let name = "\(seed) configuration \(configuration) of \(nodes[node].name)"
        let file = isRefused ? nil : AuditDigest.of(name.utf8)
        let event: AuditEvent =
            isReload ? .configurationReload(file: file) : .configurationLoad(file: file ?? .zero)
        let place = try kept(await act(node, now, event, isRefused ? .refused(.malformedRequest) : .ok))
        truth.configurations.append(Truth.Configuration(at: place, fileSha256: file?.hex, isReload: isReload))
        guard !isRefused else { return }
        for values in Configurations.events(of: configuration, node: nodes[node].name) {
            let place = try kept(await act(node, now, values))
            guard isReload else { continue }
            for change in Configurations.changes(in: configuration) {
                truth.configurationChanges.append(
                    Truth.ConfigurationChange(
                        at: place, name: change.name, before: change.before, after: change.after))
            }
        }
    }

    func seal(_ node: Int, _ now: Int64) async throws {
        try await nodes[node].sealIfDue(before: now)
        try await nodes[node].seal(at: now)
    }

    // MARK: Keys

    /// Generates a merchant's next key. Writes 4 records.
    func generate(_ node: Int, _ now: Int64, _ merchant: Int, by person: Person) async throws {
        let standing = merchants[merchant]
        let key = MerchantKey(
            label: "key \(keys.count)", merchant: standing.identifier, algorithm: standing.algorithm, seed: seed)
        keys.append(key)
        let facts = KeyFacts(algorithm: key.keyAlgorithm, origin: .generated)
        let place = try kept(await act(node, now, .keyGenerate(key: facts), by: person, key: key, usesToken: true))
        key.life.created = Truth.Step(at: place, by: person.rawValue)
        try await describe(key, now)
    }

    /// Records a key's attributes on all nodes. Writes 3 records.
    func describe(_ key: MerchantKey, _ now: Int64) async throws {
        for node in nodes.indices {
            try await act(node, now, .keyAttributes(key.attributes), key: key, usesToken: true)
        }
    }

    /// Requests the certificate of the merchant's newest key. Writes 1 record.
    func requestCertificate(_ node: Int, _ now: Int64, _ merchant: Int, by person: Person) async throws {
        try await act(node, now, .csrCreate, by: person, key: newest(merchant))
    }

    /// Imports the certificate of the merchant's newest key, which wallets use from then on. Writes 1 record.
    func activate(_ node: Int, _ now: Int64, _ merchant: Int, by person: Person) async throws {
        let (key, former) = (try newest(merchant), merchants[merchant].current)
        let certificate = AuditDigest.of("certificate of \(key.hash.hex)".utf8)
        let place = try kept(
            await act(
                node, now, .certificateImport(certificate: certificate, key: facts(key, now)), by: person, key: key))
        key.state = .active
        key.life.activated = Truth.Step(at: place, by: person.rawValue)
        former?.life.succeeded = Truth.Step(at: place, by: person.rawValue, successor: key.hash.base64)
        former?.succeededAt = now
        merchants[merchant].former = former
        merchants[merchant].current = key
    }

    /// Returns the facts about a key whose certificate began today.
    func facts(_ key: MerchantKey, _ now: Int64) -> KeyFacts {
        KeyFacts(
            algorithm: key.keyAlgorithm, origin: key.isImported ? .imported : .generated,
            certificateEnd: AuditTime(milliseconds: now + 760 * Self.day),
            issuer: AuditText("CN=Simulated Apple Pay CA,O=Example"))
    }

    private func newest(_ merchant: Int) throws -> MerchantKey {
        let identifier = merchants[merchant].identifier
        guard let key = keys.last(where: { $0.merchant == identifier && $0.use == "processing" }) else {
            throw YearFailure("\(identifier) has no key")
        }
        return key
    }

    /// Changes a key's state. Writes 1 record.
    func change(
        _ node: Int, _ now: Int64, _ key: MerchantKey, to state: AuditKeyState, by person: Person, _ reason: String,
        approval: String? = nil
    ) async throws {
        let identifier = approval.flatMap { ApprovalIdentifier(hex: $0) }
        let event = AuditEvent.keyStateChange(
            KeyStateChange(
                from: key.state, to: state,
                cutOff: state == .deactivated ? AuditTime(milliseconds: key.cutOff) : nil,
                reason: AuditReason(reason), approval: identifier))
        let place = try kept(await act(node, now, event, by: person, key: key))
        key.state = state
        var step = Truth.Step(at: place, by: person.rawValue, approval: approval)
        switch state {
        case .suspended: key.life.suspended.append(step)
        case .active: key.life.resumed.append(step)
        case .compromised: key.life.compromised = step
        case .destroyed: key.life.destroyed = step
        case .preActivation: break
        case .deactivated:
            key.life.deactivated = step
            step.successor = key.life.succeeded?.successor
            if step.successor != nil { key.life.superseded = step }
        }
    }

    // MARK: Second persons

    /// Returns an identifier that no other approval has.
    func nextApproval() throws -> ApprovalIdentifier {
        guard let identifier = ApprovalIdentifier(bytes: random.bytes(8)) else {
            throw YearFailure("an approval's name has not 8 bytes")
        }
        return identifier
    }

    /// Requests an operation that a second person has to approve. Writes 1 record.
    ///
    /// - Parameter name: the name by which the story refers to the request.
    func ask(
        _ name: String, _ node: Int, _ now: Int64, _ operation: ApprovalOperation, by person: Person,
        key: MerchantKey? = nil, reason: String, as given: ApprovalIdentifier? = nil
    ) async throws {
        let identifier = try given ?? nextApproval()
        let request = ApprovalRequest(
            approval: identifier, operation: operation, parameters: random.digest(), reason: AuditReason(reason),
            expires: AuditTime(milliseconds: now + Self.day))
        let place = try kept(await act(node, now, .approvalRequest(request), by: person, key: key))
        approvals[name] = truth.approvals.count
        truth.approvals.append(
            Truth.Approval(
                approval: identifier.hex, operation: operation.rawValue, publicKeyHash: key?.hash.base64,
                requested: place, by: person.rawValue))
    }

    /// Ends a request. Writes 1 record.
    ///
    /// - Parameter person: the person who decides; nil if the request expires without a decision.
    /// - Returns: the approval's identifier in hexadecimal.
    @discardableResult
    func decide(
        _ name: String, _ node: Int, _ now: Int64, _ decision: ApprovalDecision, by person: Person?,
        _ reason: String? = nil
    ) async throws -> String {
        let (position, approval) = try pending(name)
        let place = try kept(
            await record(
                node, now,
                .approvalDecision(
                    approval: ApprovalIdentifier(hex: approval.approval), decision: decision,
                    reason: reason.map { AuditReason($0) }), person == nil ? .refused(.approvalInvalid) : .ok,
                caller: person?.caller, key: approval.publicKeyHash.flatMap { AuditDigest(base64: $0) }))
        truth.approvals[position].decision = decision.rawValue
        truth.approvals[position].decided = place
        truth.approvals[position].decidedBy = person?.rawValue
        truth.approvalsByDecision[decision.rawValue, default: 0] += 1
        approvals[name] = nil
        return approval.approval
    }

    /// Makes the requester try to approve the request, which is refused. Writes 1 record.
    func decideAlone(_ name: String, _ node: Int, _ now: Int64, by person: Person) async throws {
        let (_, approval) = try pending(name)
        try await record(
            node, now,
            .approvalDecision(approval: ApprovalIdentifier(hex: approval.approval), decision: .approve, reason: nil),
            .refused(.approvalInvalid), caller: person.caller,
            key: approval.publicKeyHash.flatMap { AuditDigest(base64: $0) })
    }

    private func pending(_ name: String) throws -> (Int, Truth.Approval) {
        guard let position = approvals[name] else { throw YearFailure("no approval \(name) waits") }
        return (position, truth.approvals[position])
    }

    // MARK: Audit keys

    /// Makes a node trust the other nodes' keys on first use. Writes a record for each of them.
    func pinOthers(_ node: Int, _ now: Int64) async throws {
        for other in nodes.indices where other != node {
            guard let pin = KeyPin(trustedOnFirstUse: nodes[other].keys, of: nodes[other].node) else { continue }
            try await act(node, now, .auditKeyPinned(pin))
        }
    }

    /// Changes the audit key, after the former one has sealed a record that announces the new one. Writes 3 records.
    func changeAuditKey(_ name: String, _ node: Int, _ now: Int64, by person: Person, _ reason: String) async throws {
        let key = try Self.key(&random)
        let (from, to) = (nodes[node].keyId, try NodeRecord.checkpointKey(key).keyId)
        auditKeyAnnouncement = try kept(
            await act(node, now, .auditKeyPrepare(from: from, to: to), by: person, usesToken: true))
        try await seal(node, now)
        let approval = try await decide(name, node, now, .approve, by: person)
        try await act(
            node, now,
            .auditKeyChange(
                from: from, to: to, reason: AuditReason(reason), approval: ApprovalIdentifier(hex: approval)),
            by: person, usesToken: true)
        try nodes[node].use(key)
        try await seal(node, now)
    }

    /// Makes a node trust another node's new audit key, because the former key announced it. Writes 1 record.
    func pinNext(_ node: Int, _ now: Int64, of other: Int) async throws {
        let keys = nodes[other].keys
        guard keys.count > 1, let announcement = auditKeyAnnouncement else {
            throw YearFailure("there is no new key to pin")
        }
        let endorsement = KeyPin.Endorsement(keyId: keys[keys.count - 2].keyId, sequence: announcement.sequence)
        try await act(node, now, .auditKeyPinned(KeyPin(keys[keys.count - 1], of: nodes[other].node, by: endorsement)))
    }
}
