import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The audit record of the programs that open payments, and the report that compares them with the package's list.
@Suite struct ProgramFilesTests {
    /// Copies of the programs and of a list of components in the layout of the package, and a copy of a PKCS#11
    /// library.
    private struct Installed {
        let directory: FreshDirectory
        var daemon: String { directory.path("bin/paytokend") }
        var worker: String { directory.path("libexec/paytokend/paytokend-hsm") }
        var list: String { directory.path("share/doc/paytokend/sbom.cdx.json") }
        var library: String { directory.path("library.so") }

        init() async throws {
            directory = try FreshDirectory()
            for folder in ["bin", "libexec/paytokend", "share/doc/paytokend"] {
                try FileManager.default.createDirectory(
                    atPath: directory.path(folder), withIntermediateDirectories: true)
            }
            try FileManager.default.copyItem(atPath: Program.built("paytokend"), toPath: daemon)
            try FileManager.default.copyItem(atPath: Program.built("paytokend-hsm"), toPath: worker)
            let original = URL(filePath: SoftHSM.libraryPath).resolvingSymlinksInPath()
            try FileManager.default.copyItem(at: original, to: URL(filePath: library))
            let components = try await [daemon, worker].asyncMap { path in
                #"{"name":"\#(path)","hashes":[{"alg":"SHA-256","content":"\#(try await sha256(path))"}]}"#
            }.joined(separator: ",")
            try directory.write(
                #"{"bomFormat":"CycloneDX","metadata":{"component":{"version":"1.0.0-1"}},"components":[\#(components)]}"#,
                to: "share/doc/paytokend/sbom.cdx.json")
        }

        /// Returns a file's SHA-256, which coreutils' sha256sum computes.
        func sha256(_ path: String) async throws -> String {
            String(try await Program.run("/usr/bin/sha256sum", [path]).output.prefix(64))
        }

        /// Changes a file as an upgrade does, by another file with the same name.
        func change(_ path: String) throws {
            try FileManager.default.copyItem(atPath: path, toPath: path + ".new")
            let file = try #require(FileHandle(forUpdatingAtPath: path + ".new"))
            try file.seekToEnd()
            try file.write(contentsOf: Data([0]))
            try file.close()
            let renamed = unsafe rename(path + ".new", path)
            #expect(renamed == 0)
        }

        /// The starter for ``DaemonHarness/start``, which runs this daemon instead of the built one.
        var starter: [String] { ["/bin/sh", "-c", "shift; exec \(daemon) \"$@\"", "sh"] }
    }

    @Test("records the SHA-256 of programs, list and library, and reports a program that the list does not have")
    func flippedByte() async throws {
        let installed = try await Installed()
        var configuration = DaemonConfiguration()
        configuration.module = installed.library
        let harness = try await DaemonHarness(prepared: configuration)
        try await harness.start(through: installed.starter)

        let status = try await harness.admin("/v1/status")
        let programs = status.member("programs")?.objectValue
        #expect(try await programs?["paytokendSha256"]?.stringValue == installed.sha256(installed.daemon))
        #expect(try await programs?["workerSha256"]?.stringValue == installed.sha256(installed.worker))
        #expect(try await programs?["sbomSha256"]?.stringValue == installed.sha256(installed.list))
        let library = try await installed.sha256(installed.library)
        #expect(status.member("tokens")?.arrayValue?.first?.objectValue?["moduleSha256"]?.stringValue == library)
        let (first, _) = try await report(harness, installed, "first")
        #expect(first.status == 0, "\(first)")

        // The library is upgraded while the daemon runs. The next worker loads the new one.
        try installed.change(installed.library)
        kill(try harness.worker(), SIGKILL)
        try await wait(for: "the record of the new library") {
            try await !Self.changes(harness).isEmpty
        }
        let change = try #require(try await Self.changes(harness).first)
        #expect(change["from"]?.stringValue == library && change["token"]?.stringValue == "primary")
        #expect(try await change["to"]?.stringValue == installed.sha256(installed.library))
        try await harness.waitUntilReady()
        let (second, _) = try await report(harness, installed, "second")
        #expect(second.status == 0, "the list does not have the library: \(second)")
        #expect(try await harness.stop().status == 0)

        // The worker's program changes by one byte.
        try installed.change(installed.worker)
        try await harness.start(through: installed.starter)
        let (third, page) = try await report(harness, installed, "third")
        #expect(third.status == 1 && third.error.contains("programs_not_listed: from record"), "\(third)")
        #expect(page.contains("A program is not the one that its package lists."))
        #expect(try await page.contains(installed.sha256(installed.worker)))
        #expect(try await harness.stop().status == 0)
    }

    private static func changes(_ harness: DaemonHarness) async throws -> [JSONObject] {
        let listed = try await harness.paytokenctl(["audit", "list", "--limit", "1000", "--output", "json"])
        return try (JSONValue(parsing: listed.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            .filter { $0["event"]?.stringValue == "module_change" }
    }

    /// Writes the report page, and checks it with `scripts/recount-report`.
    private func report(
        _ harness: DaemonHarness, _ installed: Installed, _ name: String
    ) async throws -> (result: ProgramResult, page: String) {
        let out = harness.directory.path("\(name).html")
        let result = try await harness.paytokenctl(["audit", "report", "--out", out, "--sbom", installed.list])
        let recounted = try await Program.run(
            ProjectFiles.path("scripts/recount-report"), [out, harness.directory.path("\(name).jsonl")])
        #expect(recounted.status == 0, "\(recounted)")
        return (result, try String(contentsOfFile: out, encoding: .utf8))
    }

    @Test("refuses a list of components that is none of this package")
    func otherList() async throws {
        let directory = try FreshDirectory()
        let list = try directory.write(#"{"bomFormat":"CycloneDX"}"#, to: "list.json")
        let result = try await Program.run(
            Program.built("paytokenctl"),
            ["audit", "report", "--out", directory.path("page.html"), "--sbom", list])
        #expect(result.status != 0 && result.error.contains("list.json"), "\(result)")
        #expect(result.error.contains("is not the list of components of a paytokend package"), "\(result)")
    }
}

extension Array {
    fileprivate func asyncMap<Result>(_ transform: (Element) async throws -> Result) async rethrows -> [Result] {
        var results: [Result] = []
        for element in self { results.append(try await transform(element)) }
        return results
    }
}
