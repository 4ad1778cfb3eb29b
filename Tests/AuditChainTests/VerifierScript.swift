import Foundation
import TestSupport

/// `scripts/verify-audit`, the verifier that shares nothing with this package.
enum VerifierScript {
    static let path = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "scripts/verify-audit").path

    /// What one run said and how it ended.
    struct Verdict: Decodable, Equatable {
        let status: Int
        let output: String
    }

    /// Runs it for many arguments in one Python process, in order: only starting Python is saved.
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
