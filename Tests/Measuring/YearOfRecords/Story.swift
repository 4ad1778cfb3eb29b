import AuditChain

/// The events of the year that do not depend on the number of records. Each has a day, counted from 0, and a time.
struct Story {
    static let version = "1.4.0"
    static let laterVersion = "1.5.0"

    private(set) var acts: [Act] = []
    let start: Int64
    /// True if the year has enough records for daily events.
    let isDaily: Bool

    init(of year: Year) {
        start = year.start
        isDaily = year.wanted >= 10_000
        tellFirstDay(year)
        tellRoutine(year)
        tellKeys()
        tellNodes()
    }

    /// Adds an event to the story.
    ///
    /// - Parameters:
    ///   - time: the time of day, such as `09:00` or `09:00:30`.
    ///   - records: the number of records that the event writes.
    mutating func on(
        _ day: Int, _ time: String, records: Int, _ perform: @escaping (Year, Int64) async throws -> Void
    ) {
        let parts = time.split(separator: ":").compactMap { Int64($0) }
        let seconds = parts[0] * 3600 + parts[1] * 60 + (parts.count > 2 ? parts[2] : 0)
        acts.append(
            Act(
                time: start + Int64(day) * Year.day + seconds * 1000, number: acts.count, records: records,
                perform: perform))
    }

    // MARK: The first day

    private mutating func tellFirstDay(_ year: Year) {
        for node in year.nodes.indices {
            on(0, "00:0\(node)", records: 5) { year, now in
                try await year.act(
                    node, now, .auditKeyChange(from: nil, to: year.nodes[node].keyId, reason: nil, approval: nil),
                    usesToken: true)
                try await year.seal(node, now)
                try await year.begin(node, now, Self.version)
                try await year.describeToken(node, now)
            }
            on(0, "00:10:0\(node)", records: 2) { year, now in try await year.pinOthers(node, now) }
            // The daemon seals the day's records within a minute; here once is enough.
            on(0, "23:00:0\(node)", records: 0) { year, now in try await year.seal(node, now) }
        }
        for merchant in year.merchants.indices {
            on(0, "01:\(merchant)0", records: 4) { year, now in
                try await year.generate(0, now, merchant, by: .alice)
            }
            on(0, "01:\(merchant)1", records: 1) { year, now in
                try await year.requestCertificate(0, now, merchant, by: .alice)
            }
            on(0, "02:\(merchant)0", records: 1) { year, now in
                try await year.activate(0, now, merchant, by: .bob)
            }
        }
        tellIdentity()
    }

    /// Adds the import of the Merchant Identity key. It is the only key that comes from a file, which two persons must
    /// approve.
    private mutating func tellIdentity() {
        on(0, "03:00", records: 1) { year, now in
            let key = MerchantKey(
                label: "identity", merchant: "merchant.com.example.fashion", use: "identity", algorithm: "RSA",
                seed: year.seed)
            year.keys.append(key)
            try await year.ask(
                "identity", 0, now, .keyImport, by: .alice, key: key,
                reason: "key import for merchant.com.example.fashion")
        }
        on(0, "03:10", records: 1) { year, now in
            try await year.decide("identity", 0, now, .approve, by: .bob, "fingerprint compared")
        }
        on(0, "03:20", records: 4) { year, now in
            guard let key = year.keys.last(where: { $0.use == "identity" }),
                let approval = year.truth.approvals.last?.approval
            else { throw YearFailure("there is no identity key to import") }
            let certificate = AuditDigest.of("certificate of \(key.hash.hex)".utf8)
            let place = try year.kept(
                await year.act(
                    0, now,
                    .keyImport(
                        certificate: certificate, approval: ApprovalIdentifier(hex: approval), key: year.facts(key, now)
                    ),
                    by: .alice, key: key, usesToken: true))
            key.state = .active
            key.life.created = Truth.Step(at: place, by: Person.alice.rawValue, approval: approval)
            key.life.activated = key.life.created
            year.identity = key
            try await year.describe(key, now)
        }
    }

    // MARK: Routine

    private mutating func tellRoutine(_ year: Year) {
        for day in 1..<Year.days where isDaily || day % 30 == 1 {
            for node in year.nodes.indices {
                on(day, "04:30:0\(node)", records: 1) { year, now in
                    let count = 1 + year.random.below(400)
                    let before = AuditTime(milliseconds: now - 3 * Year.day)
                    try await year.act(node, now, .claimsPrune(count: count, before: before))
                }
                on(day, "07:00:0\(node)", records: 1) { year, now in
                    try await year.act(node, now, .auditHead(), by: .dora)
                    // A head is an audit checkpoint of the record of its request.
                    try await year.seal(node, now)
                }
            }
        }
        for day in stride(from: 7, to: Year.days, by: isDaily ? 7 : 91) {
            for node in year.nodes.indices {
                on(day, "05:00:0\(node)", records: 1) { year, now in
                    let version = day > 140 ? Self.laterVersion : Self.version
                    try await year.act(node, now, .programDigests(Year.programs(version)))
                }
            }
        }
        for day in stride(from: 3, to: Year.days - 5, by: 30) {
            for node in year.nodes.indices {
                on(day, "08:0\(node)", records: 1) { year, now in
                    let last = year.nodes[node].sequence
                    try await year.act(node, now, .auditExport(format: .jsonl, first: 1, last: last), by: .dora)
                    try await year.seal(node, now)
                }
            }
            on(day, "08:30", records: 1) { year, now in
                let records = year.nodes[0].sequence
                try await year.act(0, now, .auditVerify(verdict: .intact, records: records), by: .dora)
            }
            on(day + 1, "16:00", records: 1) { year, now in
                try await year.act(1, now, .auditList(records: 20 + year.random.below(400)), by: .alice)
            }
            on(day + 2, "02:00", records: 1) { year, now in
                if day + 2 == Self.copy {
                    let node = year.nodes[2]
                    node.loss = Truth.Loss(node: node.name, copyEndsAt: node.sequence, copiedAt: year.text(now))
                }
                // The backup is recorded after its copy is made, so no copy contains the record of its backup.
                try await year.act(
                    2, now, .ledgerBackup(bytes: 1_000_000 + 700 * year.nodes[2].sequence, file: year.random.digest()),
                    by: .carol)
                try await year.seal(2, now)
            }
        }
        for node in year.nodes.indices {
            on(1, "09:0\(node)", records: 1) { year, now in
                try await year.act(node, now, .auditPublicKey(), by: .dora)
            }
        }
    }

    /// The day of the backup that replaces the lost ledger.
    static let copy = 155
}
