import AuditChain
import Foundation
import TestSupport
import Testing

@Suite("scripts/verify-audit as a program")
struct VerifierScriptTests {
    private let export = [GoldenLineTests.first, GoldenLineTests.second, GoldenLineTests.checkpoint]
        .map { Array($0.utf8) }.export

    private func run(_ arguments: [String], input: [UInt8] = []) async throws -> ProgramResult {
        try await Program.run(VerifierScript.path, arguments, input: input)
    }

    @Test("reports an intact export from a file or standard input, and exits 0")
    func intact() async throws {
        let directory = try FreshDirectory()
        let key = try directory.write(GoldenLineTests.publicKey, to: "key.pem")
        let head = try directory.write(GoldenLineTests.checkpoint, to: "head")
        for file in [try directory.write(export, to: "export.jsonl"), "-"] {
            let result = try await run([file, key, "--head", head], input: export)
            #expect(result.output == "intact: node backend-1, records 1 to 2, sealed at 2026-01-31T12:01:00.000Z\n")
            #expect(
                result.error == "verify-audit: heads that were compared, 1; the newest: node backend-1, checkpoint 2 "
                    + "of 2026-01-31T12:01:00.000Z\n")
            #expect(result.status == 0)
        }
    }

    @Test("gives the same verdicts without its own files, with an openssl process for each signature")
    func alone() async throws {
        let directory = try FreshDirectory()
        let script = try directory.write(
            String(contentsOfFile: VerifierScript.path, encoding: .utf8), to: "verify-audit")
        let key = try directory.write(GoldenLineTests.publicKey, to: "key.pem")
        // One character of the signature is another.
        let checkpoint = GoldenLineTests.checkpoint
        var forged = Array(checkpoint.utf8)
        let signature = try #require(checkpoint.range(of: #""signature":""#)).upperBound
        let place = checkpoint.utf8.distance(from: checkpoint.startIndex, to: signature) + 40
        forged[place] = forged[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        for export in [export, [Array(GoldenLineTests.first.utf8), Array(GoldenLineTests.second.utf8), forged].export] {
            let installed = try await run(["-", key], input: export)
            let alone = try await Program.run("/usr/bin/env", ["python3", script, "-", key], input: export)
            #expect(alone.output == installed.output && alone.status == installed.status, "\(alone)")
            #expect(installed.status == (export == self.export ? 2 : 1), "\(installed)")
        }
    }

    @Test("exits 2 for an intact export without a head, and for one that lost its last seal: its end is unknown")
    func endUnknown() async throws {
        let directory = try FreshDirectory()
        let key = try directory.write(GoldenLineTests.publicKey, to: "key.pem")
        let result = try await run(["-", key], input: export)
        #expect(result.output == "intact: node backend-1, records 1 to 2, sealed at 2026-01-31T12:01:00.000Z\n")
        #expect(result.error.contains("nothing shows that the last seal was the end"), "\(result.error)")
        #expect(result.status == 2)
        let signer = try CheckpointSigner()
        let chain = try await SyntheticChain(node: "a", records: 6, checkpointEvery: 3, signer: signer)
        let other = try directory.write(signer.publicKey.pem, to: "other.pem")
        let unsealed = try await run(["-", other], input: Array(chain.lines.dropLast()).export)
        #expect(unsealed.output == "unsealed: node a, records 1 to 6, 3 after record 3 not sealed\n")
        #expect(unsealed.status == 2)
        // The export is cut off at the previous audit checkpoint.
        let cut = try await run(["-", other], input: Array(chain.lines.prefix(4)).export)
        #expect(cut.output.hasPrefix("intact: node a, records 1 to 3, ") && cut.status == 2, "\(cut)")
    }

    @Test("exits 2 if the newest head is more than a day older than the last seal, and names the records after it")
    func oldHead() async throws {
        let signer = try CheckpointSigner()
        let chain = try await SyntheticChain(node: "a", records: 6, checkpointEvery: 3, signer: signer)
        let directory = try FreshDirectory()
        let key = try directory.write(signer.publicKey.pem, to: "key.pem")
        let end = SyntheticChain.time(6).milliseconds
        func head(_ sequence: Int, before length: Int64) async throws -> SignedCheckpoint {
            try await signer.checkpoint(chain.heads[sequence - 1], at: AuditTime(milliseconds: end - length))
        }
        let (day, older) = (try await head(3, before: 86_400_000), try await head(1, before: 86_460_000))
        // A head of the last record shows the end, whatever its time.
        for (given, after, status) in [
            ([try await head(6, before: 86_460_000)], nil, 0),
            ([older, day], "4 to 6 are in no given head, 1 d 0:00:00", 0),
            ([older], "2 to 6 are in no given head, 1 d 0:01:00", 2),
        ] as [([SignedCheckpoint], String?, Int32)] {
            let file = try directory.write(given.map(\.line).export, to: "heads-\(given.count)-\(status)")
            let result = try await run(["-", key, "--head", file], input: chain.lines.export)
            #expect(result.output.hasPrefix("intact: node a, records 1 to 6, ") && result.status == status, "\(result)")
            let named = result.error.split(separator: "\n").map(String.init).filter { $0.hasPrefix("head: ") }
            let expected = after.map { "head: node a, records \($0) from the newest to the last seal" }
            #expect(named == (expected.map { [$0] } ?? []))
            #expect(result.error.contains("nothing shows that the last seal was the end") == (status == 2))
            var verifier = ChainVerifier(keys: CheckpointKeys([signer.publicKey]), heads: given)
            for line in chain.lines { verifier.consume(line: line) }
            guard case .intact(let ranges) = verifier.verdict() else { throw Missing() }
            #expect(ranges.flatMap(\.remarks).filter { $0.hasPrefix("head: ") } == named)
            #expect(verifier.verdict().exitStatus == status)
        }
    }

    @Test("names records that were sealed late, such as after a removed seal, as the program does")
    func lateSeals() async throws {
        let signer = try CheckpointSigner()
        let chain = try await SyntheticChain(node: "a", records: 2000, checkpointEvery: 100, signer: signer)
        let removed: Set = [100, 400, 500, 800, 1000, 1200, 1500, 1700]
        let lines = chain.lines.filter {
            SignedCheckpoint(line: $0).map { !removed.contains($0.checkpoint.sequence) } ?? true
        }
        func late(_ first: Int, _ last: Int, _ duration: String) -> String {
            "late: node a, records \(first) to \(last) were not sealed from \(SyntheticChain.time(first).text) to "
                + "\(SyntheticChain.time(last).text), \(duration)"
        }
        let expected = [
            late(301, 600, "0:04:59"), late(1, 200, "0:03:19"), late(701, 900, "0:03:19"), late(901, 1100, "0:03:19"),
            late(1101, 1300, "0:03:19"), "late: node a, 2 shorter times",
        ]
        let directory = try FreshDirectory()
        let key = try directory.write(signer.publicKey.pem, to: "key.pem")
        for (lines, expected) in [(lines, expected), (chain.lines, [])] {
            let result = try await run(["-", key], input: lines.export)
            #expect(result.status == 2 && result.output.hasPrefix("intact: node a, records 1 to 2000, "), "\(result)")
            let named = result.error.split(separator: "\n").map(String.init).filter { $0.hasPrefix("late: ") }
            #expect(named == expected)
            var verifier = ChainVerifier(keys: CheckpointKeys([signer.publicKey]))
            for line in lines { verifier.consume(line: line) }
            guard case .intact(let ranges) = verifier.verdict() else { throw Missing() }
            #expect(ranges.flatMap(\.remarks) == expected)
        }
    }

    @Test("exits 1 for an export without a seal, or a broken one")
    func notIntact() async throws {
        let directory = try FreshDirectory()
        let key = try directory.write(GoldenLineTests.publicKey, to: "key.pem")
        let unsealed = try await run(["-", key], input: Array((GoldenLineTests.first + "\n").utf8))
        #expect(unsealed.output == "unsealed: node backend-1, records 1 to 1, 1 after record 0 not sealed\n")
        #expect(unsealed.status == 1)
        let broken = try await run(["-", key], input: try export.replacing("checkout", with: "checkin"))
        #expect(broken.output.hasPrefix("broken: line 1, node backend-1, record 1: "))
        #expect(broken.status == 1)
    }

    @Test(
        "exits 64 and prints its usage for wrong arguments",
        arguments: [
            [], ["export"], ["export", "key", "more"], ["export", "key", "--head"], ["e", "k", "--tail", "h"],
            ["export", "--node", "all"], ["export", "key", "--node"], ["-", "a=key", "--pinned-by", "a"],
        ])
    func usage(arguments: [String]) async throws {
        let result = try await run(arguments)
        #expect(result.status == 64)
        #expect(result.output == "")
        #expect(result.error.contains("verify-audit EXPORT PUBLIC-KEY.pem [--head CHECKPOINT-FILE]"))
    }

    @Test("prints help to standard output and exits 0")
    func help() async throws {
        let result = try await run(["--help"])
        #expect(result.status == 0)
        #expect(result.output.contains("verify-audit EXPORT PUBLIC-KEY.pem [--head CHECKPOINT-FILE]"))
    }

    @Test("exits 66 for a file that is missing or has the wrong content")
    func unreadable() async throws {
        let directory = try FreshDirectory()
        let export = try directory.write(export, to: "export.jsonl")
        let key = try directory.write(GoldenLineTests.publicKey, to: "key.pem")
        let empty = try directory.write("", to: "empty")
        let wrong = try directory.write(
            GoldenLineTests.publicKey.replacing("0Xwyi992", with: "0Xwyi993"), to: "off-curve.pem")
        let runs = [
            [directory.path("none"), key], [directory.path, key], [export, directory.path("none")], [export, empty],
            [export, wrong], [export, export], [export, key, "--head", directory.path("none")],
            [export, key, "--head", empty], [export, key, "--head", export],
        ]
        for arguments in runs {
            let result = try await run(arguments)
            #expect(result.status == 66, "\(arguments)")
            #expect(result.output == "")
            #expect(result.error.hasPrefix("verify-audit: "), "\(result.error)")
        }
    }

    @Test("is short enough to review, and needs only Python's standard library")
    func small() throws {
        let text = try String(contentsOfFile: VerifierScript.path, encoding: .utf8)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count <= 300)
        #expect(lines.allSatisfy { $0.count <= 120 })
        let imports = lines.filter { $0.hasPrefix("import ") || $0.hasPrefix("from ") }
        #expect(imports == ["import base64, datetime, hashlib, json, pathlib, re, subprocess, sys, tempfile, types"])
    }
}

/// Runs `scripts/verify-audit`, a verifier that shares no code with this package.
enum VerifierScript {
    static let path = ProjectFiles.path("scripts/verify-audit")

    /// The output and exit status of one run.
    struct Verdict: Decodable, Equatable {
        let status: Int
        let output: String
    }

    /// Runs the script once for each list of arguments, all in one Python process, because starting Python is slow.
    static func verdicts(_ runs: [[String]]) async throws -> [Verdict] {
        let driver = """
            import contextlib, importlib.machinery, importlib.util, io, json, sys
            loader = importlib.machinery.SourceFileLoader("verify_audit", sys.argv[1])
            script = importlib.util.module_from_spec(importlib.util.spec_from_loader("verify_audit", loader))
            loader.exec_module(script)
            for line in sys.stdin:
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    status = script.main(json.loads(line))
                print(json.dumps({"status": status, "output": output.getvalue()}))
            """
        let input = try runs.map { try JSONEncoder().encode($0) + [0x0A] }.joined()
        let result = try await Program.run(
            Program.installed("python3"), ["-B", "-c", driver, path], input: Array(input), within: 300)
        guard result.status == 0 else { throw Failed(description: result.error) }
        return try result.outputBytes.split(separator: 0x0A).map {
            try JSONDecoder().decode(Verdict.self, from: Data($0))
        }
    }

    struct Failed: Error, CustomStringConvertible { let description: String }
}
