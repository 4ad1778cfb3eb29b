import AuditChain
import DaemonAPI
import Ledger
import Refusals
import StrictJSON

/// `GET /v1/audit/records`, `/v1/audit/export` and `/v1/audit/public-key`. That somebody looked is recorded before anything
/// is shown.
struct AuditRoutes: Sendable {
    let trail: any AuditTrail
    let looks: any AuditLooking
    let checkpoints: any CheckpointSealing

    /// A page of records, their lines verbatim; `next` goes into `cursor`.
    func records(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.auditList(records: nil))
        let query = try AuditPageQuery(request.query)
        let page = try await Self.reading(
            await trail.records(query.filter, order: query.order, after: query.cursor, limit: query.limit))
        let body = try Self.body(page)
        try await looks.look(.auditList(records: page.records.count), by: request)
        return EndpointAnswer(http: .json(status: 200, body))
    }

    /// The chain from one checkpoint to another, the records that meet other conditions than a time, or records as CSV.
    func export(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.auditExport(format: .jsonl, first: nil, last: nil))
        let query = try AuditExportQuery(request.query)
        let wanted = try await Self.reading(await extent(query.filter))
        let sequence = try await looks.look(Self.event(query, wanted), by: request)
        switch query.format {
        case .csv:
            let table = CSVExport(
                trail: trail, filter: query.filter, last: wanted == nil ? 0 : sequence, follows: query.follows)
            return Self.answer("text/csv; charset=utf-8", query) { try await table.write(to: $0) }
        case .jsonl:
            // Without a seal an export proves nothing about its end, so there is none while the HSM token cannot sign.
            let seal = try await checkpoints.seal()
            if query.filter.leavesGaps {
                let selection = SelectionExport(
                    trail: trail, filter: query.filter, last: wanted == nil ? 0 : sequence, seal: seal)
                return Self.answer("application/jsonl", query) { try await selection.write(to: $0) }
            }
            let end = max(sequence, seal?.checkpoint.sequence ?? 0)
            let export = ChainExport(
                trail: trail, wanted: wanted.map { $0.lowerBound...(query.filter.until == nil ? end : $0.upperBound) },
                seal: seal, follows: query.follows)
            return Self.answer("application/jsonl", query) { try await export.write(to: $0) }
        }
    }

    /// What a verifier needs beside an export.
    func publicKey(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.auditPublicKey)
        let keys = try await checkpoints.keys().reversed().map {
            AuditPublicKeyAnswer.Key(keyId: $0.keyId.hex, publicKey: $0.pem)
        }
        let head = try await checkpoints.remembered()
        try await looks.look(.auditPublicKey, by: request)
        return try .json(
            AuditPublicKeyAnswer(keys: keys, head: head.map { String(decoding: $0.line, as: UTF8.self) }))
    }

    private static func reading<Value>(
        _ call: @autoclosure () async throws(LedgerFailure) -> Value
    ) async throws(Refusal) -> Value {
        do throws(LedgerFailure) {
            return try await call()
        } catch {
            throw error.refusalToReader
        }
    }

    private func extent(_ filter: AuditFilter) async throws(LedgerFailure) -> ClosedRange<Int>? {
        if filter.since == nil, filter.until == nil { return 1...max(1, try await trail.head().sequence) }
        return try await trail.extent(since: filter.since, until: filter.until)
    }

    private static func event(_ query: AuditExportQuery, _ wanted: ClosedRange<Int>?) -> AuditEvent {
        switch query.purpose {
        // The reader verifies by itself, so the daemon has no verdict to record.
        case .verify: .auditVerify(verdict: nil, records: wanted?.count ?? 0)
        case .export:
            .auditExport(
                format: query.format, first: wanted?.lowerBound, last: query.follows ? nil : wanted?.upperBound)
        }
    }

    private static func answer(
        _ type: String, _ query: AuditExportQuery, produce: @escaping @Sendable (BodyWriter) async throws -> Void
    ) -> EndpointAnswer {
        EndpointAnswer(
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

    private static func body(_ page: AuditPage) throws(Refusal) -> [UInt8] {
        var body = Array("{\"items\":[".utf8)
        for record in page.records {
            // What another program wrote into the ledger must not change the answer around it.
            guard (try? JSONValue(parsing: record.line))?.objectValue != nil else {
                throw Refusal(
                    .ledgerUnavailable, "A stored record cannot be read; run paytokenctl audit verify.",
                    details: "record \(record.sequence)")
            }
            if body.last == UInt8(ascii: "}") { body.append(UInt8(ascii: ",")) }
            body.append(contentsOf: record.line)
        }
        body.append(contentsOf: "],\"next\":\(page.next.map { "\"\($0)\"" } ?? "null")}".utf8)
        return body
    }
}

extension LedgerFailure {
    /// For whoever wanted to read the record, where nothing was to be released.
    fileprivate var refusalToReader: Refusal {
        if case .overloaded = self { return refusal }
        return Refusal(.ledgerUnavailable, "The record cannot be read at present; try again later.")
    }
}

/// `POST /v1/audit/key`.
struct AuditKeyRoute: Sendable {
    let keyChange: AuditKeyChange

    func change(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let body = try ReasonRequest(parsing: request.body)
        let outcome = try await keyChange.change(
            reason: AuditReason(body.reason), by: request.knownCaller(), dryRun: request.isDryRun(),
            draft: request.draft)
        return switch outcome {
        case .changed(let from, let to):
            try .json(
                AuditKeyChangeAnswer(status: "changed", from: from.keyId.hex, to: to.keyId.hex, publicKey: to.pem))
        case .wouldChange(let from): try .json(AuditKeyChangeAnswer(status: "unchanged", from: from.keyId.hex))
        case .pending(let approval): try .pending(approval)
        }
    }
}
