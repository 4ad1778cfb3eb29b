import AuditChain
import DaemonAPI
import Foundation
import HTTPListener
import Ledger
import Refusals
import ServerProgram
import StrictJSON
import Telemetry
import UsageRecording

/// The handlers of `GET /v1/audit/records`, `/v1/audit/export`, `/v1/audit/head` and `/v1/audit/public-key`, and of
/// `POST /v1/audit/reports`. Each read is recorded before anything is shown.
struct AuditRoutes: Sendable {
    let trail: any AuditTrail
    let nodes: any Ledger
    let reads: any AuditReadRecording
    let checkpoints: any CheckpointSealing
    /// The time since a caller last received this node's head. Auditors should keep a recent head.
    let headAge: Stopwatch

    private var chains: NodeChains { NodeChains(trail: trail, nodes: nodes) }

    /// Returns a page of records, each as its line in the chain. The member `next` is the `cursor` of the next page.
    func records(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.auditList(records: nil))
        let query = try AuditPageQuery(request.query)
        let chosen = try await chains.chosen(query.node)
        guard chosen.count <= MergedRecords.maximumNodes else {
            throw Refusal(
                .malformedRequest,
                "The records of more than \(MergedRecords.maximumNodes) nodes are not merged; request those of one node.",
                details: NodeQuery.parameter)
        }
        let merged = MergedRecords(
            chains: chosen.map { ($0.node, $0.chain) }, filter: query.filter, order: query.order)
        let page = try await NodeChains.reading(await merged.page(after: query.cursor, limit: query.limit))
        let body = try Self.body(page)
        try await reads.recordRead(
            .auditList(records: page.records.count, ofNode: Self.name(query.node, chosen)), by: request)
        return EndpointAnswer(http: .json(status: 200, body))
    }

    /// Returns an export. The query selects its form: the chain between two audit checkpoints, the records that match
    /// conditions other than times, or records as CSV.
    ///
    /// If several nodes are requested, their parts follow one another, this node's first. Another node's part ends with
    /// that node's last audit checkpoint, since only that node can seal later records.
    func export(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.auditExport(format: .jsonl, first: nil, last: nil))
        let query = try AuditExportQuery(request.query)
        let chosen = try await chains.chosen(query.node)
        var wanted: [ClosedRange<Int>?] = []
        for chain in chosen {
            wanted.append(try await NodeChains.reading(await Self.extent(query, chain.chain)))
        }
        let readRecord = try await reads.recordRead(
            Self.event(query, wanted.count == 1 ? wanted[0] : nil, ofNode: Self.name(query.node, chosen)), by: request)
        // The seal proves where the export ends. If the HSM token cannot sign, the request therefore fails rather than
        // exporting this node's records without a seal.
        let seal =
            query.format == .jsonl && chosen.contains(where: \.isOwn) ? try await checkpoints.seal() : nil
        let parts = zip(chosen, wanted).enumerated().map { index, part in
            ExportPart(
                query: query, chain: part.0, wanted: part.1, readRecord: readRecord, seal: part.0.isOwn ? seal : nil,
                isFirst: index == 0)
        }
        return Self.answer(query) { writer in
            for part in parts { try await part.write(to: writer) }
        }
    }

    /// Returns the newest audit checkpoint of each requested node, one in each line. This node's audit checkpoint is
    /// made now, so it seals the record of this request. For another node, it is the last one that the node made. A
    /// node without an audit checkpoint has no line.
    func head(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.auditHead())
        var parameters = request.query
        let query = try NodeQuery(takenFrom: &parameters)
        let chosen = try await chains.chosen(query)
        try await reads.recordRead(.auditHead(ofNode: Self.name(query, chosen)), by: request)
        var lines: [UInt8] = []
        for chain in chosen {
            let head =
                if chain.isOwn { try await checkpoints.seal() } else {
                    try await NodeChains.reading(await chain.chain.latestCheckpoint())
                }
            if let head { lines += head.line + [0x0A] }
        }
        if chosen.contains(where: \.isOwn) { headAge.restart() }
        return EndpointAnswer(
            http: HTTPAnswer(
                status: 200, headers: [HTTPAnswer.Header(name: "Content-Type", value: "application/jsonl")], body: lines
            ))
    }

    /// Returns the keys that a verification of an export needs. Other nodes' keys come from the ledger alone. An attacker
    /// who can change the ledger could replace them, so they need confirmation from another source.
    func publicKey(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.auditPublicKey())
        var parameters = request.query
        let query = try NodeQuery(takenFrom: &parameters)
        let chosen = try await chains.chosen(query)
        let own = try await checkpoints.keys()
        let head = chosen.contains(where: \.isOwn) ? try await checkpoints.remembered() : nil
        var described: [AuditPublicKeyAnswer.Node]?
        if query != .own {
            let stored = try await NodeChains.reading(await nodes.auditKeysOfOtherNodes())
            var found: [AuditPublicKeyAnswer.Node] = []
            for chain in chosen {
                let keys =
                    chain.isOwn
                    ? own
                    : stored.filter { $0.node == chain.node }.compactMap {
                        $0.key.publicKey.flatMap(CheckpointKey.init(stored:))
                    }
                found.append(try await Self.describe(chain, keys))
            }
            described = found
        }
        try await reads.recordRead(.auditPublicKey(ofNode: Self.name(query, chosen)), by: request)
        return try .json(
            AuditPublicKeyAnswer(
                keys: described.flatMap { $0.count == 1 ? $0[0].keys : nil } ?? Self.shown(own),
                head: head.map { String(decoding: $0.line, as: UTF8.self) }, nodes: described))
    }

    /// Records that the caller made a report for an assessor (`paytokenctl audit report`). The daemon does not receive
    /// the report, so the members of the request are only the caller's statement about it.
    func report(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.auditReport(nil))
        let body = try AuditReportRequest(parsing: request.body)
        guard let page = AuditDigest(hex: body.pageSha256) else {
            throw Refusal(
                .malformedRequest, "pageSha256 is not 64 lower-case hexadecimal digits.", details: "pageSha256")
        }
        let lastSequences = body.nodes.compactMap { node in
            AuditNode(node.node).flatMap { node.lastSequence >= 0 ? (node: $0, sequence: node.lastSequence) : nil }
        }
        guard lastSequences.count == body.nodes.count, let since = AuditTime(rfc3339: body.since),
            let until = AuditTime(rfc3339: body.until), since < until,
            let report = ReportMade(page: page, since: since, until: until, lastSequences: lastSequences)
        else {
            throw Refusal(
                .malformedRequest, "The report's period or its nodes are not possible.",
                details: "since and until are RFC 3339, since before until; each node has its name and last sequence")
        }
        let sequence = try await reads.recordRead(.auditReport(report), by: request)
        return try .json(AuditReportAnswer(audit: AuditReference(node: nodes.node, sequence: sequence)))
    }

    private static func describe(
        _ chain: NodeChains.Chain, _ keys: [CheckpointKey]
    ) async throws(Refusal) -> AuditPublicKeyAnswer.Node {
        let head = try await NodeChains.reading(await chain.chain.head())
        let sealed = try await NodeChains.reading(await chain.chain.latestCheckpoint())?.checkpoint
        return AuditPublicKeyAnswer.Node(
            node: chain.node.name, isOwn: chain.isOwn, keys: shown(keys), lastSequence: head.sequence,
            sealedSequence: sealed?.sequence,
            sealedAt: sealed.map(\.time.date))
    }

    /// Returns the keys as the API shows them, the newest first.
    private static func shown(_ keys: [CheckpointKey]) -> [AuditPublicKeyAnswer.Key] {
        keys.reversed().map { AuditPublicKeyAnswer.Key(keyId: $0.keyId.hex, publicKey: $0.pem) }
    }

    /// Returns the name of the node whose record is read, for the audit record of this request: `all` for all nodes,
    /// nil for this node.
    private static func name(_ query: NodeQuery, _ chosen: [NodeChains.Chain]) -> AuditText? {
        if query == .all { return AuditText("all") }
        return chosen.first.flatMap { $0.isOwn ? nil : AuditText($0.node.name) }
    }

    /// Returns the sequences of the records in a chain that the query's `from`, or its times, select; nil if they
    /// select no record.
    private static func extent(
        _ query: AuditExportQuery, _ chain: any ChainReading
    ) async throws(LedgerFailure) -> ClosedRange<Int>? {
        let filter = query.filter
        if query.from != nil || filter.since == nil && filter.until == nil {
            // Archived records cannot be exported, so the audit record of this export does not include their sequences.
            let first = max(query.from ?? 1, (try await chain.lastArchive()?.last ?? 0) + 1)
            return first...max(first, try await chain.head().sequence)
        }
        return try await chain.extent(since: filter.since, until: filter.until)
    }

    private static func event(
        _ query: AuditExportQuery, _ wanted: ClosedRange<Int>?, ofNode node: AuditText?
    ) -> AuditEvent {
        switch query.purpose {
        // The caller verifies the export itself, so the daemon has no verdict to record.
        case .verify: .auditVerify(verdict: nil, records: wanted?.count ?? (query.node == .all ? nil : 0), ofNode: node)
        case .export:
            .auditExport(
                format: query.format, first: wanted?.lowerBound, last: query.follows ? nil : wanted?.upperBound,
                ofNode: node)
        }
    }

    private static func answer(
        _ query: AuditExportQuery, produce: @escaping @Sendable (BodyWriter) async throws -> Void
    ) -> EndpointAnswer {
        let type = query.format == .csv ? "text/csv; charset=utf-8" : "application/jsonl"
        return EndpointAnswer(
            http: HTTPAnswer(
                status: 200, headers: [HTTPAnswer.Header(name: "Content-Type", value: type)],
                stream: BodyStream(isEndless: query.follows) { writer in
                    do {
                        try await produce(writer)
                    } catch let failure as LedgerFailure {
                        throw failure.refusalToReader
                    }
                }))
    }

    private static func body(_ page: MergedRecords.Page) throws(Refusal) -> [UInt8] {
        var body = Array("{\"items\":[".utf8)
        for record in page.records {
            // Lines are copied into the answer unchanged. If another program has written a line that is no JSON object, it
            // could change the rest of the answer.
            guard (try? JSONValue(parsing: record.line))?.objectValue != nil else {
                throw Refusal(
                    .ledgerUnavailable, "A stored record cannot be read; verify the record.",
                    details: "record \(record.sequence)")
            }
            if body.last == UInt8(ascii: "}") { body.append(UInt8(ascii: ",")) }
            body.append(contentsOf: record.line)
        }
        body.append(contentsOf: "],\"next\":\(page.next.map { "\"\($0.text)\"" } ?? "null")}".utf8)
        return body
    }
}

/// The handler of `POST /v1/audit/key`.
struct AuditKeyRoute: Sendable {
    let keyChange: AuditKeyChange

    func change(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let body = try AuditKeyChangeRequest(parsing: request.body)
        let outcome = try await keyChange.change(
            to: body.token, isLost: body.lost ?? false, reason: AuditReason(body.reason), by: request.knownCaller(),
            dryRun: request.isDryRun(), draft: request.draft)
        return switch outcome {
        case .changed(let from, let to):
            try .json(
                AuditKeyChangeAnswer(status: "changed", from: from.keyId.hex, to: to.keyId.hex, publicKey: to.pem))
        case .wouldChange(let from): try .json(AuditKeyChangeAnswer(status: "unchanged", from: from.keyId.hex))
        case .pending(let approval): try .pending(approval)
        }
    }
}

/// The interface for recording each read of the key-usage record.
protocol AuditReadRecording: Sendable {
    /// Records durably that the caller reads the record, before any record is shown.
    ///
    /// - Returns: the sequence of the audit record of the read.
    /// - Throws: ledger_unavailable or overloaded. Nothing must then be shown.
    @discardableResult
    func recordRead(_ event: AuditEvent, by request: EndpointRequest) async throws(Refusal) -> Int
}

extension UsageRecorder: AuditReadRecording {
    @discardableResult
    func recordRead(_ event: AuditEvent, by request: EndpointRequest) async throws(Refusal) -> Int {
        request.draft.setEvent(event)
        let sequence = try await append(auditRecord(of: request.draft, by: request.caller))
        request.draft.recorded(at: sequence)
        return sequence
    }
}
