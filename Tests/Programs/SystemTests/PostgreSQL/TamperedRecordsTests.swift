import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Changes that the database's superuser makes to the audit record of a stopped host. `paytokenctl audit verify` and
/// `scripts/verify-audit` must detect them on the other host.
@Suite struct TamperedRecordsTests {
    /// Runs the statement as superuser, without triggers.
    private static func tamper(_ nodes: TwoNodes, _ sql: String) async throws {
        try await nodes.database.sql("SET session_replication_role = replica; " + sql)
    }

    /// Makes a change to the second host's rows, runs the checks, and restores the rows.
    private static func changing(
        _ nodes: TwoNodes, _ change: () async throws -> Void, _ look: () async throws -> Void
    ) async throws {
        try await tamper(
            nodes,
            """
            CREATE TABLE kept_record AS SELECT * FROM audit_record WHERE node = 'node-2';
            CREATE TABLE kept_checkpoint AS SELECT * FROM checkpoint WHERE node = 'node-2'
            """)
        try await change()
        try await look()
        try await tamper(
            nodes,
            """
            DELETE FROM audit_record WHERE node = 'node-2'; DELETE FROM checkpoint WHERE node = 'node-2';
            INSERT INTO audit_record SELECT * FROM kept_record; INSERT INTO checkpoint SELECT * FROM kept_checkpoint;
            DROP TABLE kept_record; DROP TABLE kept_checkpoint
            """)
    }

    /// Returns two hosts. The second one has stopped, and its record is sealed.
    private func nodes() async throws -> (TwoNodes, key: String, head: [UInt8]) {
        let nodes = try await TwoNodes()
        for _ in 0..<3 { #expect(try await nodes.second.decrypt(SharedForge.paymentToken()).status == 200) }
        try await nodes.waitForPin()
        let export = try await nodes.second.paytokenctl(["audit", "export"])
        #expect(export.status == 0)
        for _ in 0..<2 { #expect(try await nodes.second.decrypt(SharedForge.paymentToken()).status == 200) }
        #expect(try await nodes.second.stop().status == 0)
        let newest = try await nodes.database.sql(
            "SELECT convert_from(line, 'UTF8') FROM checkpoint WHERE node = 'node-2' ORDER BY sequence DESC LIMIT 1")
        return (nodes, try await nodes.givenKey(nodes.first, "node-1"), Array((newest + "\n").utf8))
    }

    @Test("detects records that are changed, removed, reordered, or copied from another host")
    func changedRows() async throws {
        let (nodes, key, _) = try await nodes()
        // The record follows an audit checkpoint directly and precedes another record, so that no audit checkpoint
        // reveals the change first.
        let sealed = try await nodes.database.sql(
            "SELECT min(sequence) FROM checkpoint WHERE node = 'node-2' AND sequence > 0")
        let record = try #require(Int(sealed)) + 1
        let columns =
            "sequence, time, event, outcome, caller, caller_uid, merchant, public_key_hash, transaction_id, hash, line"
        let cases = [
            (
                """
                UPDATE audit_record SET line = convert_to(replace(convert_from(line, 'UTF8'), '"ok"', '"no"'), 'UTF8')
                WHERE node = 'node-2' AND sequence = \(record)
                """, "node node-2, record \(record): its hash does not follow from record \(record - 1)"
            ),
            (
                "DELETE FROM audit_record WHERE node = 'node-2' AND sequence = \(record)",
                "node node-2, record \(record + 1): record \(record) is missing before it"
            ),
            (
                """
                UPDATE audit_record SET sequence = 999999 WHERE node = 'node-2' AND sequence = \(record);
                UPDATE audit_record SET sequence = \(record) WHERE node = 'node-2' AND sequence = \(record + 1);
                UPDATE audit_record SET sequence = \(record + 1) WHERE node = 'node-2' AND sequence = 999999
                """, "node node-2, record \(record + 1): record \(record) is missing before it"
            ),
            (
                """
                DELETE FROM audit_record WHERE node = 'node-2' AND sequence = \(record);
                INSERT INTO audit_record (node, \(columns))
                SELECT 'node-2', \(columns) FROM audit_record WHERE node = 'node-1' AND sequence = \(record)
                """, "node node-1, record \(record): "
            ),
            (
                """
                DELETE FROM audit_record WHERE node = 'node-2'; DELETE FROM checkpoint WHERE node = 'node-2';
                INSERT INTO audit_record (node, \(columns))
                SELECT 'node-2', \(columns) FROM audit_record WHERE node = 'node-1';
                INSERT INTO checkpoint (node, sequence, time, line)
                SELECT 'node-2', sequence, time, line FROM checkpoint WHERE node = 'node-1'
                """, "node node-2: there is no line of it"
            ),
            (
                "DELETE FROM audit_record WHERE node = 'node-2'; DELETE FROM checkpoint WHERE node = 'node-2'",
                "node node-2: there is no line of it"
            ),
        ]
        for (sql, words) in cases {
            try await Self.changing(nodes) {
                try await Self.tamper(nodes, sql)
            } _: {
                let live = try await nodes.first.paytokenctl(["audit", "verify", "--node", "node-2"])
                #expect(live.status == 1 && live.output.contains(words), "\(sql): \(live)")
                let export = try await nodes.verdictOfExport(key)
                #expect(export.status == 1 && export.output.contains("broken: "), "\(sql): \(export)")
            }
        }
        // With the original rows restored, the verification finds no fault.
        #expect(try await nodes.verdictOfExport(key).status == 2)
        #expect(try await nodes.first.stop().status == 0)
    }

    @Test("detects an audit record whose beginning was removed up to an audit checkpoint")
    func removedBeginning() async throws {
        let (nodes, _, _) = try await nodes()
        try await Self.tamper(
            nodes,
            """
            CREATE TABLE cut AS SELECT min(sequence) AS at FROM checkpoint WHERE node = 'node-2' AND sequence > 0;
            DELETE FROM audit_record WHERE node = 'node-2' AND sequence <= (SELECT at FROM cut);
            DELETE FROM checkpoint WHERE node = 'node-2' AND sequence < (SELECT at FROM cut);
            DROP TABLE cut
            """)
        let live = try await nodes.first.paytokenctl(["audit", "verify", "--node", "node-2"])
        #expect(live.status == 1 && live.output.contains("records 1 to"), "\(live)")
        #expect(live.output.contains("missing before it"), "\(live)")
        _ = try await nodes.first.stop()
    }

    @Test("detects an older copy of a host's record with a kept audit checkpoint, and at that host's next start")
    func olderCopy() async throws {
        let (nodes, key, head) = try await nodes()
        let kept = try nodes.first.directory.write(head, to: "head.json")
        // The statement leaves the rows as in a dump from before the second host's last audit checkpoint.
        try await Self.tamper(
            nodes,
            """
            CREATE TABLE cut AS SELECT max(sequence) AS at FROM checkpoint WHERE node = 'node-2'
                AND sequence < (SELECT max(sequence) FROM checkpoint WHERE node = 'node-2');
            DELETE FROM audit_record WHERE node = 'node-2' AND sequence > (SELECT at FROM cut);
            DELETE FROM checkpoint WHERE node = 'node-2' AND sequence > (SELECT at FROM cut);
            DROP TABLE cut
            """)
        let words = "it was cut off or the ledger rolled back"
        let live = try await nodes.first.paytokenctl(["audit", "verify", "--node", "node-2", "--head", kept])
        #expect(live.status == 1 && live.output.contains(words), "\(live)")
        let export = try await nodes.verdictOfExport(key, ["--head", kept])
        #expect(export.status == 1 && export.output.contains(words), "\(export)")
        let itself = try await Program.run(
            Program.built("paytokend"), ["--config", nodes.second.configurationFile])
        #expect(itself.status == 78 && itself.error.contains("accept-restore"), "\(itself)")
        _ = try await nodes.first.stop()
    }

    @Test("detects and records a replaced audit key, and rejects the record that the replacement signed")
    func replacedAuditKey() async throws {
        let (nodes, key, _) = try await nodes()
        let forger = P256.Signing.PrivateKey()
        try await Self.tamper(nodes, try await Forgery(nodes.database, node: "node-2").statements(signedBy: forger))
        let point = forger.publicKey.x963Representation.map { String(format: "%02x", $0) }.joined()
        try await Self.tamper(nodes, "UPDATE audit_key SET public_key = '\\x\(point)' WHERE node = 'node-2'")
        // With the forger's key, the verification succeeds, which shows that the forgery is complete.
        let pem = try nodes.first.directory.write(Array(forger.publicKey.pemRepresentation.utf8), to: "forger.pem")
        let forged = try await nodes.first.paytokenctl([
            "audit", "verify", "--node", "node-2", "--public-key", "node-2=\(pem)",
        ])
        #expect(forged.status == 0 && forged.output.contains("key given"), "\(forged)")

        let live = try await nodes.first.paytokenctl(["audit", "verify", "--node", "node-2"])
        #expect(live.status == 1 && live.output.contains("node node-2, checkpoint "), "\(live)")
        #expect(live.output.contains("not signed by a given key"), "\(live)")
        let export = try await nodes.verdictOfExport(key)
        #expect(export.status == 1 && export.output.contains("not signed by a given key"), "\(export)")
        try await wait(for: "the finding") {
            try await nodes.events(of: nodes.first).contains("audit_key_conflict")
        }
        let status = try await nodes.first.paytokenctl(["status"])
        #expect(status.status == 0, "releases go on: \(status)")
        #expect(status.error.contains("for node node-2, and no trusted key of that node endorses"), "\(status)")
        // The daemon records the conflict once despite restarts. If the record with which it trusted the key is
        // hidden, it makes another one, which verification detects.
        #expect(try await nodes.first.stop().status == 0)
        try await Self.tamper(
            nodes, "UPDATE audit_record SET event = 'verify' WHERE node = 'node-1' AND event = 'audit_key_pinned'")
        try await nodes.first.start()
        try await nodes.waitForPin(2)
        #expect(try await nodes.events(of: nodes.first).count { $0 == "audit_key_conflict" } == 1)
        let hidden = try await nodes.first.paytokenctl(["audit", "verify", "--node", "node-2"])
        #expect(hidden.status == 1 && hidden.output.contains("pins another key for it"), "\(hidden)")
        let again = try await nodes.verdictOfExport(key)
        #expect(again.status == 1 && again.output.contains("pins another key for it"), "\(again)")
        _ = try await nodes.first.stop()
    }
}

/// A host's audit record with one changed record, recomputed hashes, and audit checkpoints that another key signs. The
/// forgery follows the document for auditors, without the project's code.
private struct Forgery {
    private let node: String
    private let records: [(sequence: Int, line: String)]
    private let checkpoints: [Int: String]

    init(_ database: DaemonDatabase, node: String) async throws {
        self.node = node
        func lines(_ table: String) async throws -> [(sequence: Int, line: String)] {
            try await database.sql(
                "SELECT sequence || ' ' || convert_from(line, 'UTF8') FROM \(table) WHERE node = '\(node)' ORDER BY sequence"
            ).split(separator: "\n").compactMap { row in
                let parts = row.split(separator: " ", maxSplits: 1)
                return Int(parts[0]).map { ($0, String(parts[1])) }
            }
        }
        records = try await lines("audit_record")
        checkpoints = Dictionary(uniqueKeysWithValues: try await lines("checkpoint").map { ($0.sequence, $0.line) })
    }

    func statements(signedBy key: P256.Signing.PrivateKey) throws -> String {
        let keyId = SHA256.hash(data: key.publicKey.derRepresentation).hexadecimal
        var (statements, previous) = ([String](), Data(count: 32))
        for (sequence, line) in records {
            let body = String(line.dropLast(75)).replacing("\"event\":\"decrypt\"", with: "\"event\":\"verify\"")
            let hash = SHA256.hash(data: previous + Data(body.utf8))
            previous = Data(hash)
            let forged = body + ",\"hash\":\"\(hash.hexadecimal)\"}"
            statements.append(
                "UPDATE audit_record SET line = '\\x\(Self.hex(Data(forged.utf8)))', hash = '\\x\(hash.hexadecimal)' "
                    + "WHERE node = '\(node)' AND sequence = \(sequence)")
            guard let checkpoint = checkpoints[sequence] else { continue }
            let time = try #require(checkpoint.components(separatedBy: "\"time\":\"").last?.prefix(24))
            let signed =
                "{\"node\":\"\(node)\",\"sequence\":\(sequence),\"hash\":\"\(hash.hexadecimal)\",\"time\":\"\(time)\","
                + "\"keyId\":\"\(keyId)\"}"
            let signature = try key.signature(for: Data(signed.utf8)).derRepresentation.base64EncodedString()
            let sealed = "{\"checkpoint\":\(signed),\"signature\":\"\(signature)\"}"
            statements.append(
                "UPDATE checkpoint SET line = '\\x\(Self.hex(Data(sealed.utf8)))' "
                    + "WHERE node = '\(node)' AND sequence = \(sequence)")
        }
        return statements.joined(separator: "; ")
    }

    private static func hex(_ data: Data) -> String { data.map { String(format: "%02x", $0) }.joined() }
}
