import Foundation
import Ledger
import SQLiteLedger
import TestSupport
import Testing

@testable import ConfigurationFile
@testable import DaemonConfiguration
@testable import HTTPListener

@Suite("Paths that --check examines")
struct ConfiguredPathTests {
    /// Returns the problems of the file, each as `LINE KEY: message`, or the file's warnings if it has no problem.
    private func examine(
        _ fixture: ConfigurationFixture, _ text: String, examinesPlaces: Bool = true
    ) throws -> (problems: [String], warnings: [String]) {
        try fixture.directory.write(ConfigurationFixture.minimum + text, to: "c.yaml")
        do throws(ConfigurationProblems) {
            let configuration = try Configuration.load(
                path: fixture.directory.path("c.yaml"), environment: [:], examinesPlaces: examinesPlaces)
            return ([], configuration.warnings.filter { !$0.setting.isInsecure }.map(\.message))
        } catch {
            return (error.problems.map { "\($0.line ?? 0) \($0.key): \($0.message)" }, [])
        }
    }

    private static let good =
        "listener: { socket: a.sock, admin_socket: b.sock }\nledger: { url: \"sqlite:l.sqlite\" }\n"

    @Test("accepts good paths, and creates nothing there")
    func acceptedPaths() throws {
        let fixture = try ConfigurationFixture()
        #expect(try examine(fixture, Self.good) == ([], []))
        let left = try FileManager.default.contentsOfDirectory(atPath: fixture.directory.path)
        #expect(Set(left) == ["c.yaml", "pin", "module.so"])
    }

    @Test("reports a ledger that a start would refuse, with its line and the message of the start")
    func refusedLedgerPath() async throws {
        let fixture = try ConfigurationFixture()
        let open = fixture.directory.path("open")
        try FileManager.default.createDirectory(atPath: open, withIntermediateDirectories: false)
        try FileManager.default.setAttributes([.posixPermissions: 0o1777], ofItemAtPath: open)
        try FileManager.default.createDirectory(
            atPath: fixture.directory.path("directory.sqlite"), withIntermediateDirectories: false)
        try fixture.directory.write("", to: "readable.sqlite")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o644], ofItemAtPath: fixture.directory.path("readable.sqlite"))
        for (path, part) in [
            ("absent/l.sqlite", "does not exist"), ("~/l.sqlite", "~ is not expanded"),
            ("open/l.sqlite", "can be written by others"), ("directory.sqlite", "is not a regular file"),
            ("readable.sqlite", "can be used by others"), ("/tmp/l.sqlite", "can be written by others"),
        ] {
            let text = Self.good.replacing("sqlite:l.sqlite", with: "sqlite:\(path)")
            let problems = try examine(fixture, text).problems
            #expect(problems.count == 1 && problems[0].hasPrefix("7 ledger.url: ") && problems[0].contains(part))
            let absolute = path.hasPrefix("/") ? path : fixture.directory.path(path)
            let refused = await #expect(throws: LedgerOpeningError.self) {
                _ = try await SQLiteLedger.open(
                    SQLiteLedger.Settings(path: absolute, node: nil, repeatFor: .zero, timeout: .seconds(1)),
                    observe: { _ in })
            }
            #expect(problems[0].contains("\(try #require(refused))".dropLast()))
            // A reload does not check the paths, because the daemon has already opened them.
            #expect(try examine(fixture, text, examinesPlaces: false).problems.isEmpty)
        }
    }

    @Test("reports a socket path that a start would refuse, with its line and the message of the start")
    func refusedSocketPath() throws {
        let fixture = try ConfigurationFixture()
        try fixture.directory.write("", to: "file.sock")
        try FileManager.default.createDirectory(
            atPath: fixture.directory.path("directory.sock"), withIntermediateDirectories: false)
        for (path, part) in [
            ("absent/a.sock", "cannot be opened"), ("~/a.sock", "~ is not expanded"),
            ("file.sock", "exists and is not a socket"), ("directory.sock", "exists and is not a socket"),
        ] {
            for (key, name) in [("socket", "a.sock"), ("admin_socket", "b.sock")] {
                let problems = try examine(fixture, Self.good.replacing(name, with: path)).problems
                #expect(
                    problems.count == 1 && problems[0].hasPrefix("6 listener.\(key): ") && problems[0].contains(part))
                let refused = #expect(throws: ListenerError.self) {
                    _ = try SocketFile.listen(path: fixture.directory.path(path), mode: 0o600, group: nil)
                }
                #expect(problems[0].contains("\(try #require(refused))"))
            }
        }
    }

    @Test(
        "warns about a directory that the systemd unit creates",
        .enabled(
            if: !FileManager.default.fileExists(atPath: "/run/paytokend")
                && !FileManager.default.fileExists(atPath: "/var/lib/paytokend"), "there is an installed paytokend"))
    func unitDirectories() throws {
        let (problems, warnings) = try examine(try ConfigurationFixture(), "")
        #expect(problems.isEmpty && warnings.count == 3)
        #expect(warnings.allSatisfy { $0.contains("the systemd unit makes it") })
    }
}
