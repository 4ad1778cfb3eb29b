import AuditChain

/// What takes place in the year whatever the number of records: at which day, counted from 0, and time.
struct Story {
    private(set) var acts: [Act] = []
    let start: Int64
    /// Whether there are as many records that daily ones do not displace the others.
    let isDaily: Bool

    init(of year: Year) {
        start = year.start
        isDaily = year.wanted >= 10_000
        setUp(year)
    }

    /// - Parameters:
    ///   - time: `09:00`, or `09:00:30`.
    ///   - records: how many it leaves.
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

    private mutating func setUp(_ year: Year) {
        for node in year.nodes.indices {
            on(0, "00:0\(node)", records: 3) { year, now in
                try await year.act(
                    node, now, .auditKeyChange(from: nil, to: year.nodes[node].keyId, reason: nil, approval: nil),
                    usesToken: true)
                try await year.begin(node, now, Year.version)
            }
        }
        for merchant in year.merchants.indices {
            on(0, "01:\(merchant)0", records: 2) { year, now in
                try await year.generate(0, now, merchant, by: .alice)
            }
            on(0, "02:\(merchant)0", records: 1) { year, now in
                try await year.activate(0, now, merchant, by: .bob)
            }
        }
    }
}
