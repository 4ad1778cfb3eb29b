import Foundation
import Glibc
import StrictJSON
import TestSupport
import Testing

@testable import Daemon
@testable import Telemetry

/// SIGHUP's work on the daemon's parts, without a process.
@Suite("Reload")
struct ReloadTests {
    private let fixture: ConfigurationFixture
    private let assembly: Assembly
    private let logFile: FileHandle
    private let log: StandardErrorLog

    init() async throws {
        fixture = try ConfigurationFixture()
        let configuration = try fixture.load(Self.text(fixture, log: "{ level: info, format: json }"))
        logFile = try FileHandle(forWritingTo: URL(filePath: fixture.directory.write("", to: "log")))
        log = StandardErrorLog(configuration.log, sink: LogSink(descriptor: logFile.fileDescriptor))
        assembly = try await Assembly.make(configuration, logger: log.logger("paytokend"))
    }

    private static func text(_ fixture: ConfigurationFixture, log: String) -> String {
        ConfigurationFixture.minimum + """
            ledger: { url: "sqlite:\(fixture.directory.path("ledger.sqlite"))", node: node-1 }
            log: \(log)

            """
    }

    /// The lines that the reload logs.
    private func reload(log section: String) async throws -> [JSONObject] {
        try fixture.directory.write(Self.text(fixture, log: section), to: "c.yaml")
        let before = try lines().count
        _ = await Reload(
            file: fixture.directory.path("c.yaml"), assembly: assembly, log: log, logger: log.logger("paytokend")
        ).run()
        // Each of them is JSON.
        return try lines().dropFirst(before).map { line in
            try #require(try JSONValue(parsing: Array(line)).objectValue)
        }
    }

    private func lines() throws -> [Data] {
        log.flush()
        return try Data(contentsOf: URL(filePath: fixture.directory.path("log"))).split(separator: 0x0A)
    }

    @Test("another log.format is named as what needs a restart, and the log goes on in the format that it began with")
    func format() async throws {
        let logged = try await reload(log: "{ level: debug, format: text }")
        #expect(log.level == .debug)
        let warning = try #require(logged.first { $0["sections"] != nil })
        #expect(warning["level"] == .string("warning"))
        #expect(warning["sections"] == .string("log.format"))
        log.logger("paytokend").debug("later")
        #expect(try lines().last?.first == UInt8(ascii: "{"))
        // It still waits: the next reload says so again, and one with the old format does not.
        #expect(try await reload(log: "{ level: info, format: text }").contains { $0["sections"] != nil })
        #expect(try await reload(log: "{ level: info, format: json }").allSatisfy { $0["sections"] == nil })
    }

    @Test("another level is in force at once, and needs no restart")
    func level() async throws {
        #expect(try await reload(log: "{ level: warning, format: json }").isEmpty)
        #expect(log.level == .warning)
    }
}
