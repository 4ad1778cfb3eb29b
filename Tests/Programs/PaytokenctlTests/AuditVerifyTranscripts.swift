import Foundation
import StrictJSON
import TestSupport
import Testing

@Suite("Transcripts: audit verify of an export")
struct AuditVerifyTranscripts {
    /// A directory with an export and its public key.
    private struct Files {
        let record: SealedRecord
        let directory: FreshDirectory
        let export: String
        let key: String

        init(_ record: SealedRecord, export: [UInt8]? = nil) throws {
            self.record = record
            directory = try FreshDirectory()
            self.export = try directory.write(export ?? record.export, to: "record.jsonl")
            key = try directory.write(record.publicKey.pem, to: "key.pem")
        }

        func verify(_ more: [String] = []) async throws -> ProgramResult {
            try await Command.paytokenctl(["audit", "verify", "--export", export, "--public-key", key] + more)
        }
    }

    @Test("reports an intact export with its range and seal; exits 0 with a head, and 2 without, as its end is unknown")
    func intact() async throws {
        let files = try Files(SealedRecord())
        let head = try files.directory.write(try required(files.record.lines.last) + [0x0A], to: "head.json")
        let result = try await files.verify(["--head", head])
        #expect(result.status == 0)
        #expect(result.output == "intact: node backend-1, records 1 to 10, sealed at 2026-01-31T12:00:10.000Z\n")
        #expect(result.error == "")
        for more in [[], ["--node", "all"], ["--node", "backend-1"]] {
            let headless = try await files.verify(more)
            #expect(headless.status == 2)
            #expect(headless.output.hasPrefix(result.output.dropLast()))
            #expect(
                headless.error
                    == "chain_end_unknown: node backend-1's record is intact up to record 10, but nothing shows that this "
                    + "was its end. Compare it with a head that was kept elsewhere, at most a day older than its last seal: "
                    + "--head FILE.\n")
        }
        let json = try await files.verify(["--head", head, "--output", "json"])
        #expect(
            json.output
                == #"{"verdict":"intact","lines":12,"records":10,"nodes":[{"node":"backend-1","first":1,"last":10,"#
                + ""
                + #""sealed":10,"sealedAt":"2026-01-31T12:00:10.000Z","endKnown":true}]}"# + "\n")
    }

    @Test("reads the export from standard input, and accepts a part that begins at an audit checkpoint")
    func piped() async throws {
        let record = try SealedRecord()
        let files = try Files(record)
        let part = SealedRecord.export(Array(record.lines[5...]))
        let result = try await Command.paytokenctl(
            ["audit", "verify", "--export", "-", "--public-key", files.key],
            input: String(decoding: part, as: UTF8.self))
        #expect(result.status == 2)
        #expect(result.output == "intact: node backend-1, records 6 to 10, sealed at 2026-01-31T12:00:10.000Z\n")
    }

    @Test("names a changed record and its line, and exits with 1")
    func changed() async throws {
        let record = try SealedRecord()
        let files = try Files(record, export: record.changing(record: 7))
        let result = try await files.verify()
        #expect(result.status == 1)
        #expect(
            result.output
                == "broken: line 8, node backend-1, record 7: its hash does not follow from record 6: one of the two "
                + "was changed\n")
        #expect(
            result.error
                == "chain_broken: line 8, node backend-1, record 7. Later records were not checked. Keep this "
                + "export, and compare it with an older one or with a backup.\n")
        let json = try JSONValue(parsing: try await files.verify(["--output", "json"]).outputBytes)
        #expect(json.objectValue?["verdict"]?.stringValue == "broken")
        #expect(json.objectValue?["fault"]?.objectValue?["sequence"]?.numberValue?.int == 7)
        #expect(json.objectValue?["fault"]?.objectValue?["line"]?.numberValue?.int == 8)
    }

    @Test("reports records after the last audit checkpoint as unsealed and exits with 2, or 1 if there is none")
    func unsealed() async throws {
        let result = try await Files(SealedRecord(sealsEnd: false)).verify()
        #expect(result.status == 2)
        #expect(result.output == "unsealed: node backend-1, records 1 to 10, 5 after record 5 not sealed\n")
        #expect(result.error.hasPrefix("chain_unsealed: no checkpoint seals the end of node backend-1's record"))
        let record = try SealedRecord()
        let empty = try await Files(record, export: []).verify()
        #expect(empty.status == 1)
        let bare = try await Files(record, export: SealedRecord.export(Array(record.lines[..<4]))).verify()
        #expect(bare.status == 1, "\(bare)")
        #expect(empty.output == "unsealed: the export is empty\n")
    }

    @Test("detects a removed end with a kept head, given as a file or as a line")
    func head() async throws {
        let record = try SealedRecord()
        let head = try required(record.lines.last)
        let files = try Files(record, export: SealedRecord.export(Array(record.lines[..<6])))
        #expect(try await files.verify().status == 2)
        let file = try files.directory.write(head + [0x0A], to: "head.json")
        for argument in [file, String(decoding: head, as: UTF8.self)] {
            let result = try await files.verify(["--head", argument])
            #expect(result.status == 1)
            #expect(
                result.output
                    == "broken: head, node backend-1, checkpoint 10: the export ends at record 5: it was cut off or the "
                    + "ledger rolled back\n")
        }
        let whole = try Files(record)
        #expect(try await whole.verify(["--head", file]).status == 0)
    }

    @Test("refuses a key other than the one that signed")
    func anotherKey() async throws {
        let files = try Files(SealedRecord())
        let other = try files.directory.write(SealedRecord().publicKey.pem, to: "other.pem")
        let result = try await Command.paytokenctl([
            "audit", "verify", "--export", files.export, "--public-key", other,
        ])
        #expect(result.status == 1)
        #expect(
            result.output
                == "broken: line 6, node backend-1, checkpoint 5: not signed by a given key: no given key vouches from "
                + "record 1 on\n")
    }

    @Test("exits with 64 for wrong usage")
    func usage() async throws {
        let files = try Files(SealedRecord())
        let cases = [
            ["--export", files.export], ["--export", "-", "--public-key", "-"],
            ["--export", files.export, "--public-key", files.key, "--head", "{\"checkpoint\":1}"],
        ]
        for arguments in cases {
            let result = try await Command.paytokenctl(["audit", "verify"] + arguments)
            #expect(result.status == 64, "\(arguments)")
            #expect(result.output == "")
        }
        let unkeyed = try await Command.paytokenctl(["audit", "verify", "--export", files.export])
        #expect(unkeyed.error.contains("an export does not say whom to trust"))
    }

    @Test("exits with 66 for an unusable file, and names it")
    func unusable() async throws {
        let files = try Files(SealedRecord())
        let folder = files.directory.path
        let csv = try files.directory.write(
            "\"# For reading only: CSV cannot be verified. Export JSON lines (--format jsonl) to verify the record.\"\r\n",
            to: "record.csv")
        let absent = files.directory.path("absent")
        let cases = [
            (["--export", absent, "--public-key", files.key], "\(absent) does not exist."),
            (["--export", folder, "--public-key", files.key], "\(folder) is a directory, not a file."),
            (
                ["--export", csv, "--public-key", files.key],
                "\(csv) is CSV, which is for reading and cannot be verified."
            ),
            (["--export", files.export, "--public-key", absent], "\(absent) does not exist."),
            (["--export", files.export, "--public-key", files.export], "\(files.export) holds no public key in PEM"),
            (
                ["--export", files.export, "--public-key", files.key, "--head", files.key],
                "\(files.key) holds something else than checkpoints"
            ),
        ]
        for (arguments, message) in cases {
            let result = try await Command.paytokenctl(["audit", "verify"] + arguments)
            #expect(result.status == 66, "\(arguments)")
            #expect(result.error.hasPrefix(message), "\(result.error)")
            #expect(result.output == "")
        }
    }

    @Test(
        "shows progress in a terminal, and replaces it with the verdict",
        .enabled("script(1) makes the terminal") { (try? Program.installed("script")) != nil })
    func progress() async throws {
        let files = try Files(SealedRecord())
        // The second half arrives half a second after the first one was read, when the program shows progress.
        let halves = """
            import fcntl, os, sys, termios, time
            lines = open("record.jsonl", "rb").readlines()
            os.write(1, b"".join(lines[:6]))
            while any(fcntl.ioctl(1, termios.FIONREAD, bytes(4))): time.sleep(0.01)
            time.sleep(0.5)
            os.write(1, b"".join(lines[6:]))
            """
        try files.directory.write(halves, to: "halves.py")
        try files.directory.write(try required(files.record.lines.last) + [0x0A], to: "head.json")
        let command =
            "python3 halves.py | \"$PAYTOKENCTL\" audit verify --export - --public-key key.pem --head head.json > verdict"
        let result = try await RunningProgram(
            Program.installed("script"), ["-qec", command, "/dev/null"],
            environment: ["PAYTOKENCTL": Program.built("paytokenctl"), "SHELL": Program.installed("sh")],
            workingDirectory: files.directory.path
        ).result()
        #expect(result.status == 0)
        let blanks = String(repeating: " ", count: "10 records verified".count)
        // On a slow machine, the program may show progress once more, which the comparison ignores.
        let shown = result.output.replacing("\r6 records verified", with: "").replacing("verified ", with: "verified")
        #expect(shown == "\r10 records verified\r\(blanks)\r")
        let verdict = try String(contentsOfFile: files.directory.path("verdict"), encoding: .utf8)
        #expect(verdict == "intact: node backend-1, records 1 to 10, sealed at 2026-01-31T12:00:10.000Z\n")
    }
}
