import AuditChain
import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing

@testable import AuditReport

/// Audit records of several nodes in the order of an export, which contains one node's complete chain after another.
struct RecordBook {
    private var heads: [AuditNode: ChainHead] = [:]
    private var lines: [AuditNode: [[UInt8]]] = [:]
    private var order: [AuditNode] = []

    /// The lines of the HSM tokens' logs with which a page compares the records.
    var tokenUses: [[String]] = []

    private static func text(_ log: [String]) -> String {
        (log + [#"{"end":\#(log.count - 1)}"#, ""]).joined(separator: "\n")
    }

    /// Reads a log as `paytokenctl audit report` does.
    private static func read(_ lines: [String], name: String) throws -> TokenUseLog {
        var log = try TokenUseLog(header: Array(lines[0].utf8))
        for line in lines.dropFirst() + [#"{"end":\#(lines.count - 1)}"#] { try log.take(line: Array(line.utf8)) }
        try log.finish()
        log.file = TokenUseLog.File(name: name, digest: .of(Array(text(lines).utf8)))
        return log
    }

    static let key = AuditDigest.of(Array("one".utf8))
    static let other = AuditDigest.of(Array("other".utf8))
    /// The time from which `time(_:)` counts, a Thursday.
    static let start = AuditTime(rfc3339: "2026-01-01T00:00:00Z") ?? .earliest

    /// Returns the time this many hours after `start`.
    static func time(_ hours: Double) -> AuditTime {
        AuditTime(milliseconds: start.milliseconds + Int64(hours * 3_600_000))
    }

    /// Appends a record to the node's chain, and returns its sequence number.
    ///
    /// - Parameter isKnown: false for a caller without a name, whom no access rule knows.
    @discardableResult
    mutating func add(
        _ event: AuditEvent, _ outcome: AuditOutcome = .ok, on node: String = "node-1", at hours: Double,
        by caller: String? = nil, uid: UInt32 = 1001, isKnown: Bool = true, key: AuditDigest? = nil,
        merchant: String? = "merchant.com.example", hsmToken: String? = nil, transaction: AuditDigest? = nil,
        hsmWasNotReached: Bool = false
    ) throws -> Int {
        let node = try #require(AuditNode(node))
        if heads[node] == nil {
            heads[node] = ChainHead(node: node)
            order.append(node)
        }
        let record = AuditRecord(
            time: Self.time(hours), event: event, outcome: outcome,
            caller: caller.map { AuditCaller(name: isKnown ? AuditText($0) : nil, uid: uid, gid: 100) },
            merchant: key == nil ? nil : merchant.map { AuditText($0) }, publicKeyHash: key, transactionId: transaction,
            hsmToken: hsmToken.map { AuditText($0) }, hsmWasNotReached: hsmWasNotReached)
        var head = try #require(heads[node])
        let line = head.append(record)
        heads[node] = head
        lines[node, default: []].append(line.bytes)
        return line.sequence
    }

    /// Appends an audit checkpoint of the node's last record, signed with a new key.
    mutating func seal(on node: String = "node-1", at hours: Double) throws {
        let node = try #require(AuditNode(node))
        let head = try #require(heads[node])
        let signature = try P256.Signing.PrivateKey().signature(for: Array("checkpoint".utf8)).derRepresentation
        let line =
            "{\"checkpoint\":{\"node\":\"\(node.name)\",\"sequence\":\(head.sequence),\"hash\":\"\(head.hash.hex)\","
            + "\"time\":\"\(Self.time(hours).text)\",\"keyId\":\"\(AuditDigest.zero.hex)\"},\"signature\":"
            + "\"\(signature.base64EncodedString())\"}"
        lines[node, default: []].append(Array(line.utf8))
    }

    /// Removes the first `count` records of a node, as archiving does.
    mutating func archive(_ count: Int, on node: String = "node-1") throws {
        lines[try #require(AuditNode(node))]?.removeFirst(count)
    }

    var export: [[UInt8]] { order.flatMap { lines[$0] ?? [] } }

    /// - Parameters:
    ///   - from: the beginning of the period, in hours from `start`.
    ///   - to: the end of the period, in hours from `start`.
    func counted(
        from: Double = 0, to: Double = 24 * 31, listed: [ListedPrograms] = []
    ) throws -> ReportBuilder {
        var builder = ReportBuilder(
            period: try #require(ReportPeriod(since: Self.time(from), until: Self.time(to))),
            tokenUses: try tokenUses.enumerated().map { try Self.read($0.element, name: "uses-\($0.offset).jsonl") },
            listed: listed)
        for line in export { builder.survey(line: line) }
        for line in export { builder.count(line: line) }
        if builder.beginThirdPass() { for line in export { builder.search(line: line) } }
        return builder
    }

    /// Requires that `scripts/recount-report`, an independent implementation, counts the same.
    func expectRecounted(to: Double = 24 * 31) async throws {
        let script = ProjectFiles.path("scripts/recount-report")
        let directory = try FreshDirectory()
        let export = self.export.map { String(decoding: $0, as: UTF8.self) + "\n" }.joined()
        let logs = try tokenUses.enumerated().map {
            try directory.write(Self.text($0.element), to: "uses-\($0.offset).jsonl")
        }
        let files = [
            try directory.write(page(to: to), to: "page.html"), try directory.write(export, to: "export.jsonl"),
        ]
        let counted = try await Program.run(script, files + logs)
        let end = " are those of the export" + (logs.isEmpty ? "" : " and of the HSM tokens' logs") + "\n"
        #expect(counted.status == 0 && counted.output.hasSuffix(end), "\(counted)")
    }

    func page(
        from: Double = 0, to: Double = 24 * 31, others: [OtherLedger] = [], live: LiveState? = nil,
        listed: [ListedPrograms] = [], verifier: InstalledVerifier? = nil
    ) throws -> String {
        let page = try reportPage(
            from: from, to: to, others: others, live: live, listed: listed, verifier: verifier)
        return String(decoding: page.bytes, as: UTF8.self)
    }

    func report(to: Double) throws -> JSONValue { try reportPage(from: 0, to: to).report }

    private func reportPage(
        from: Double, to: Double, others: [OtherLedger] = [], live: LiveState? = nil, listed: [ListedPrograms] = [],
        verifier: InstalledVerifier? = nil
    ) throws -> ReportPage {
        let builder = try counted(from: from, to: to, listed: listed)
        var (chains, file) = (ChainVerifier(separately: TrustedKeys()), [UInt8]())
        for line in export { file += line + [0x0A] }
        for line in export { chains.consume((line + [0x0A])[...]) }
        let export = VerifiedExport(
            file: "records.jsonl", bytes: file.count, digest: .of(file), keyFiles: ["node-1=key.pem"], pinning: nil,
            page: "page.html", verdict: chains.verdictOfNodes())
        return ReportPage(
            builder: builder, export: export, live: live, others: others, verifier: verifier,
            madeAt: Self.time(to), version: "1.0.0")
    }
}
