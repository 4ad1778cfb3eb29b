import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows HSM tokens, tiers, sessions, ledger, trust and versions.",
        discussion: """
            Exit status 0 only if the daemon is ready to decrypt.

              paytokenctl status
              until paytokenctl status > /dev/null; do sleep 1; done
            """)

    @OptionGroup var width: WideOption
    @OptionGroup var read: ReadOptions

    func run() async throws {
        var remarks: [String] = []
        let status = try await read.show(.get("/v1/status"), as: StatusAnswer.self) { status in
            Self.text(status) { table in
                let (text, note) = table.shown(isWide: width.isWide)
                if let note { remarks.append(note) }
                return text
            }
        }
        for note in remarks { Console.error(note) }
        if read.format.output == .table {
            for warning in status.warnings { Console.error("warning: \(warning)") }
        }
        if !status.ready {
            let hints = Set(status.reasons.compactMap { CommandHints.commands(after: $0.code, at: $0.component) })
            let lines = status.reasons.map { "\($0.code): \($0.component): \($0.message)" }
            throw CommandFailure(
                .no, lines.first, more: Array(lines.dropFirst()),
                hint: hints.isEmpty ? nil : hints.sorted().joined(separator: ", "))
        }
    }

    private static func googlePay(_ trust: TrustStatus) -> [(String, String)] {
        guard let keys = trust.googlePay else { return [] }
        let shown = keys.filter { $0.notAfter > Date() }
            .map { "\($0.sha256.prefix(8)) until \(RFC3339.string($0.notAfter))" }
        let none = "no root key counts: paytokenctl trust google-pay fetch, then accept"
        return [("Google Pay", shown.isEmpty ? none : shown.joined(separator: "; "))]
    }

    /// - Parameter shown: fits a table to the terminal.
    static func text(_ status: StatusAnswer, shown: (Table) -> String) -> String {
        let ledger = [status.ledger.engine, status.ledger.condition, status.ledger.message].compactMap { $0 }
        let roots = status.trust.roots.map(\.subject).joined(separator: "; ")
        let daemon = Table(
            pairs: [
                ("Ready", status.ready ? "yes" : "no"),
                ("Version", status.version),
                ("Node", status.node),
                ("Started", RFC3339.string(status.startedAt)),
                ("Ledger", ledger.joined(separator: ", ")),
            ] + programs(status) + record(status.ledger) + database(status.ledger) + [
                ("Roots", roots.isEmpty ? "-" : roots)
            ] + googlePay(status.trust) + [
                ("Distrusted", String(status.trust.distrusted)),
                ("Window", status.trust.signingTimeWindow),
            ])
        let servesGooglePay = status.trust.googlePay != nil
        var columns: [Table.Column] = [
            Table.Column("TOKEN", shortening: .beginning), "CONDITION",
            Table.Column("LABEL", importance: 5, shortening: .beginning),
            Table.Column("SERIAL", importance: 3, shortening: .beginning),
            Table.Column("MODEL", importance: 2, shortening: .words), Table.Column("FIRMWARE", importance: 1),
            Table.Column("SESSIONS", importance: 4), "EC_v1", "RSA_v1", Table.Column("TLS", importance: 6),
            Table.Column("KEYS", importance: 7),
        ]
        if servesGooglePay { columns.append(Table.Column("ECv2", importance: 8)) }
        var hsmTokens = Table(columns: columns)
        for hsmToken in status.tokens {
            var row = [
                hsmToken.name, hsmToken.condition, hsmToken.label ?? "-", hsmToken.serialNumber ?? "-",
                hsmToken.model ?? "-", hsmToken.firmwareVersion ?? "-",
                hsmToken.sessions.map(String.init) ?? "-", hsmToken.tierECv1 ?? "-", hsmToken.tierRSAv1 ?? "-",
                tls(hsmToken),
                hsmToken.keys.map(String.init) ?? "-",
            ]
            if servesGooglePay { row.append(hsmToken.tierECv2 ?? "-") }
            hsmTokens.add(row)
        }
        var text = shown(daemon)
        if let nodes = status.ledger.nodes {
            var table = Table(columns: [
                Table.Column("NODE", shortening: .beginning), Table.Column("VERSION", importance: 2), "LAST COMMIT",
                Table.Column("NAME HELD", importance: 1),
            ])
            for node in nodes {
                table.add([
                    node.name, node.version, RFC3339.string(node.lastSeen), node.isLeased ? "yes" : "no",
                ])
            }
            text += "\n" + shown(table)
        }
        if !hsmTokens.isEmpty { text += "\n" + shown(hsmTokens) }
        let notes = status.tokens.flatMap { hsmToken in
            let tests = hsmToken.testKeys.map {
                "keeps key pairs for self-tests, labelled \"paytokend test\": \($0.joined(separator: ", "))"
            }
            return ([hsmToken.message, tests].compactMap(\.self) + hsmToken.shortcomings).map {
                "\(hsmToken.name): \($0)\n"
            }
        }
        if !notes.isEmpty { text += "\n" + notes.map(Printable.line).joined() }
        return text
    }
}

extension StatusCommand {
    /// The algorithms that identity keys sign with, such as `PSS,PKCS1`. `PSS*` means that the worker makes the
    /// padding.
    private static func tls(_ hsmToken: HSMTokenStatus) -> String {
        let names = (hsmToken.tlsAlgorithms ?? []).map { algorithm in
            switch algorithm {
            case "rsa_pss_rsae_sha256": hsmToken.pss == "worker" ? "PSS*" : "PSS"
            case "rsa_pkcs1_sha256": "PKCS1"
            default: algorithm
            }
        }
        return names.isEmpty ? "-" : names.joined(separator: ",")
    }

    /// The beginning of each program's SHA-256. The JSON output contains the whole digest.
    private static func programs(_ status: StatusAnswer) -> [(String, String)] {
        let files =
            [
                ("paytokend", status.programs?.paytokendSha256), ("paytokend-hsm", status.programs?.workerSha256),
                ("SBOM", status.programs?.sbomSha256),
            ] + status.tokens.map { ("library of \($0.name)", $0.moduleSha256) }
        let digests = files.compactMap { name, sha256 in sha256.map { "\(name) \($0.prefix(12))…" } }
        return digests.isEmpty ? [] : [("SHA-256", digests.joined(separator: ", "))]
    }

    /// The sequences at which this node's record ends and up to which it is sealed and archived. Empty while the ledger
    /// does not provide them.
    private static func record(_ ledger: LedgerStatus) -> [(String, String)] {
        guard let last = ledger.lastSequence else { return [] }
        let sealed = ledger.sealedSequence.map { sequence in
            "sealed to \(sequence)" + (ledger.sealedAt.map { " at \(RFC3339.string($0))" } ?? "")
        }
        let archived = ledger.archivedSequence.map { "archived to \($0)" }
        let parts = ["to \(last)", sealed ?? "not sealed", archived]
        let sealing = ledger.sealingToken.map { [($0, ledger.sealingAlgorithm)] } ?? []
        return [("Record", parts.compactMap(\.self).joined(separator: ", "))]
            + sealing.map { ("Sealed by", $0 + ($1.map { ", \($0)" } ?? "")) }
    }

    /// The address of a ledger on a server, and this daemon's lease on its name.
    private static func database(_ ledger: LedgerStatus) -> [(String, String)] {
        var pairs: [(String, String)] = []
        if let server = ledger.server {
            pairs = [
                ("Server", "\(server.host), database \(server.database), role \(server.role)"),
                ("PostgreSQL", "\(server.version), system \(server.systemIdentifier), timeline \(server.timeline)"),
                ("Standby", server.standbys ?? "none is named"),
            ]
        }
        if let lease = ledger.lease {
            let hold = lease.isLost ? "taken by another daemon" : "renewed \(Int(lease.ageSeconds)) s ago"
            pairs.append(("Name", "\(hold), fencing number \(lease.fencingNumber)"))
        }
        return pairs
    }
}

extension Printable {
    /// One line with a newline, made safe for a terminal.
    fileprivate static func line(_ text: String) -> String {
        Self.text(String(text.dropLast())) + "\n"
    }
}
