import ArgumentParser
import CommandOutput
import Crypto
import DaemonAPI
import Encodings
import Foundation
import StrictJSON

struct LedgerBackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copies the ledger to a new file while the daemon serves.",
        discussion: """
            The copy holds everything that was durable at one moment: released transactions, records, checkpoints, \
            keys' states; no key and no payment data. It is readable by its owner only, is checked against the \
            daemon's SHA-256, is complete or does not exist, and never replaces another file.

              paytokenctl ledger backup /backup/ledger-$(date +%F).sqlite

            A ledger in PostgreSQL is refused (invalid_state): copy it with PostgreSQL's tools, pg_basebackup with an \
            archive of its log, or pg_dump.

            Copy the HSM token's directory after it, never before: a token directory that is newer than the ledger's \
            copy shows that there was more.

            To restore see: paytokenctl ledger restore --help
            """)

    @Argument(help: ArgumentHelp("A new file.", valueName: "file"), completion: .file())
    var file: String

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let (size, digest) = try await Interruption.cancelling { try await copy() }
        let hex = Hexadecimal.encode(digest)
        let json = JSONWriter.object { json in
            json.member("file", file)
            json.member("bytes", size)
            json.member("sha256", hex)
        }
        try format.show(json, Table(pairs: [("File", file), ("Bytes", String(size)), ("SHA-256", hex)]).text)
    }

    private func copy() async throws -> (size: Int, digest: [UInt8]) {
        let file = try NewFile(file)
        let connection = socket.connection
        // The daemon makes the copy before its response begins, which takes longer for a larger ledger.
        let answer = try await connection.stream(
            .post("/v1/ledger/backup", body: Array("{}".utf8)), deadline: .seconds(600))
        guard let expected = answer.header("Repr-Digest").flatMap(ReprDigest.sha256) else {
            throw connection.unexpectedAnswer(answer.status)
        }
        var hasher = SHA256()
        let size = try await answer.copy(to: file, said: "copied") { hasher.update(data: $0) }
        let digest = Array(hasher.finalize())
        guard digest == expected else {
            throw CommandFailure(
                .defect,
                "internal_error: the copy arrived with another SHA-256 than the daemon sent. Nothing was kept; try again."
            )
        }
        try file.publish()
        return (size, digest)
    }
}

/// The header field Repr-Digest, RFC 9530 §3: a dictionary of algorithms and byte sequences (RFC 9651 §3.2).
enum ReprDigest {
    /// The 32 bytes of `sha-256=:…:`; nil if it is missing or malformed.
    static func sha256(_ field: String) -> [UInt8]? {
        let members = field.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
        guard let member = members.last(where: { $0.hasPrefix("sha-256=:") }), member.hasSuffix(":"),
            let digest = Base64.decode(String(member.dropFirst("sha-256=:".count).dropLast())), digest.count == 32
        else { return nil }
        return digest
    }
}
