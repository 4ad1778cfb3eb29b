import AuditChain
import Foundation
import Glibc
import Refusals
import StrictJSON
import TestSupport
import Testing
import TokenForge

@testable import Daemon
@testable import DaemonConfiguration
@testable import ServerProgram
@testable import Telemetry
@testable import UsageRecording

/// A reload of the daemon's parts in the test's process, as SIGHUP causes it.
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

    /// Returns the lines that the reload logs.
    private func reload(log section: String) async throws -> [JSONObject] {
        try fixture.directory.write(Self.text(fixture, log: section), to: "c.yaml")
        let before = try lines().count
        await assembly.reload(from: fixture.directory.path("c.yaml"), log: log, logger: log.logger("paytokend"))
        // Each line must be JSON.
        return try lines().dropFirst(before).map { line in
            try #require(try JSONValue(parsing: Array(line)).objectValue)
        }
    }

    private func lines() throws -> [Data] {
        log.flush()
        return try Data(contentsOf: URL(filePath: fixture.directory.path("log"))).split(separator: 0x0A)
    }

    @Test("reports that another log.format needs a restart, and keeps logging in the initial format")
    func logFormatKept() async throws {
        let logged = try await reload(log: "{ level: debug, format: text }")
        #expect(log.level == .debug)
        let warning = try #require(logged.first { $0["sections"] != nil })
        #expect(warning["level"] == .string("warning"))
        #expect(warning["sections"] == .string("log.format"))
        log.logger("paytokend").debug("later")
        #expect(try lines().last?.first == UInt8(ascii: "{"))
        // The change is still pending, so the next reload reports it again. A reload with the old format reports
        // nothing.
        #expect(try await reload(log: "{ level: info, format: text }").contains { $0["sections"] != nil })
        #expect(try await reload(log: "{ level: info, format: json }").allSatisfy { $0["sections"] == nil })
    }

    @Test("applies another level at once, without a restart")
    func logLevelApplied() async throws {
        #expect(try await reload(log: "{ level: warning, format: json }").isEmpty)
        #expect(log.level == .warning)
    }

    /// The recorded configuration events after record `sequence`, in order.
    private func recorded(after sequence: Int = 0) async throws -> [AuditEntry] {
        try await assembly.ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 1000).records
            .map { try AuditEntry(line: $0.line) }
            .filter { $0.sequence > sequence && $0.event.hasPrefix("configuration_") }
    }

    private func value(_ name: String, _ entry: AuditEntry?) -> String? {
        entry?.details["values"]?.objectValue?[name]?.stringValue
    }

    /// Reloads with this file, as SIGHUP does.
    private func reload(_ text: String) async throws -> Bool {
        try fixture.directory.write(text, to: "c.yaml")
        return await assembly.reload(from: fixture.directory.path("c.yaml"), log: log, logger: log.logger("paytokend"))
    }

    @Test(
        "records the values after a start, none after an unchanged reload, and the values in force after a changed one"
    )
    func recordedValues() async throws {
        let text = Self.text(fixture, log: "{ level: info, format: json }")
        try await assembly.lifeRecords.started(with: fixture.load(text))
        var entries = try await recorded()
        #expect(entries.map(\.event) == ["configuration_load", "configuration_values"])
        #expect(entries[1].sequence == entries[0].sequence + 1)
        #expect(value("access.1.roles", entries[1]) == "decrypt, session, portal-read, monitor, audit, admin")
        #expect(value("ledger.path", entries[1]) == fixture.directory.path("ledger.sqlite"))

        var last = try #require(entries.last?.sequence)
        #expect(try await reload(text))
        entries = try await recorded(after: last)
        #expect(entries.map(\.event) == ["configuration_reload"])

        // Another PIN in the same file is a change.
        last = try #require(entries.last?.sequence)
        let before = assembly.live.configuration.current.recordedValues["tokens.primary.pin_digest"]
        try fixture.directory.write("4321\n", to: "pin")
        #expect(try await reload(text))
        entries = try await recorded(after: last)
        #expect(entries.map(\.event) == ["configuration_reload", "configuration_values"])
        let after = value("tokens.primary.pin_digest", entries.last)
        #expect(before != nil && after != nil && before != after)

        // A changed access rule takes effect immediately. Changed limits of listener and approvals take effect only
        // after a restart.
        last = try #require(entries.last?.sequence)
        let changed =
            text + """
                access:
                  - { name: night-shift, user: root, roles: [admin], merchants: ["merchant.com.example.*"] }
                approvals: { people: 1 }
                listener: { max_connections: 7 }

                """
        #expect(try await reload(changed))
        entries = try await recorded(after: last)
        #expect(entries.map(\.event) == ["configuration_reload", "configuration_values"])
        #expect(entries[1].sequence == entries[0].sequence + 1)
        #expect(value("access.1.name", entries.last) == "night-shift")
        #expect(value("access.1.merchants", entries.last) == "merchant.com.example.*")
        #expect(value("access.2.roles", entries.last) == nil)
        #expect(value("listener.max_connections", entries.last) == "512")
        #expect(value("approvals.people", entries.last) == "2")

        // The values are recorded again if the file's contents differ, even if the values are the same.
        last = try #require(entries.last?.sequence)
        #expect(try await reload(changed + "# a comment\n"))
        #expect(try await recorded(after: last).map(\.event) == ["configuration_reload", "configuration_values"])
        // A reload of the same file has the same values, so they are not recorded again.
        last = try #require(try await recorded().last?.sequence)
        #expect(try await reload(changed + "# a comment\n"))
        #expect(try await recorded(after: last).map(\.event) == ["configuration_reload"])
    }

    @Test("records values that change under the same file: a root's file with another certificate")
    func sameFile() async throws {
        let text = Self.text(fixture, log: "{ level: info, format: json }") + "trust: { roots: [root.pem] }\n"
        let certificates = try [SharedForge.authority.root, SharedForge.authority.intermediate]
        for certificate in certificates {
            try fixture.directory.write(certificate.certificatePEM, to: "root.pem")
            let last = try await recorded().last?.sequence ?? 0
            #expect(try await reload(text))
            let entries = try await recorded(after: last)
            #expect(entries.map(\.event) == ["configuration_reload", "configuration_values"])
            #expect(value("trust.roots", entries.last) == AuditDigest.of(certificate.certificate).hex)
        }
        #expect(try await reload(text))
        #expect(try await recorded().map(\.event).last == "configuration_reload")
    }

    // If the ledger does not respond, it may have recorded the new values although the previous values are in force.
    @Test("records the values in force at the next reload after one that could not be recorded, even without a change")
    func recordingInDoubt() throws {
        let text = Self.text(fixture, log: "{ level: info, format: json }")
        let (old, new) = try (fixture.load(text), fixture.load(text + "approvals: { people: 1 }\n"))
        #expect(assembly.live.valuesToRecord(with: new)?["log.level"] == "info")
        #expect(assembly.live.valuesToRecord(with: old)?["log.level"] == "info")
        _ = try assembly.live.replace(with: old, policies: Policies(old))
        #expect(assembly.live.valuesToRecord(with: old) == nil)
    }

    /// Carries out the requests for reloads, as the program's main loop does, while `work` runs.
    private func serving(_ work: () async throws -> Void) async throws {
        let source = ReloadSource(file: fixture.directory.path("c.yaml"), log: log, logger: log.logger("paytokend"))
        let task = Task { [assembly] in
            for await request in assembly.reloadRequests { _ = await request.perform(source) }
        }
        defer { task.cancel() }
        try await work()
        task.cancel()
        await task.value
    }

    private func requester() -> ConfigurationReload.Requester {
        ConfigurationReload.Requester(caller: RecordRoutesFixture.auditor, draft: AuditDraft())
    }

    @Test("applies a changed file at a person's request, records the person, and names what changed and what waits")
    func requested() async throws {
        let text = Self.text(fixture, log: "{ level: info, format: json }")
        try await serving {
            let changed =
                text + """
                    access:
                      - { name: night-shift, user: root, roles: [admin] }
                    listener: { max_connections: 7 }

                    """
            try fixture.directory.write(changed, to: "c.yaml")
            let tried = try await assembly.reload.reload(by: requester(), dryRun: true)
            #expect(try await recorded().isEmpty && assembly.live.configuration.current.access.rules.first?.name == nil)
            let requester = requester()
            let outcome = try await assembly.reload.reload(by: requester, dryRun: false)
            #expect(outcome.changes == tried.changes)
            #expect(outcome.pending == ["listener"] && tried.pending == ["listener"])
            let name = try #require(outcome.changes.first { $0.name == "access.1.name" })
            #expect(name.before == nil && name.after == "night-shift")
            #expect(assembly.live.configuration.current.access.rules.first?.name == "night-shift")
            let entries = try await recorded()
            #expect(entries.map(\.event) == ["configuration_reload", "configuration_values"])
            #expect(entries.allSatisfy { $0.caller?.uid == 1007 && $0.caller?.name?.text == "auditor" })
            #expect(requester.draft.sequence == entries.first?.sequence)
            #expect(try await assembly.reload.reload(by: self.requester(), dryRun: false).changes.isEmpty)
        }
    }

    @Test("refuses a wrong file with all its problems, and keeps the old configuration", arguments: [true, false])
    func requestedWrongly(dryRun: Bool) async throws {
        try fixture.directory.write(Self.text(fixture, log: "{ level: loud, color: red }"), to: "c.yaml")
        try await serving {
            let refusal = await #expect(throws: Refusal.self) {
                try await assembly.reload.reload(by: requester(), dryRun: dryRun)
            }
            #expect(refusal?.code == .invalidState)
            #expect(refusal?.details?.contains("level") == true && refusal?.details?.contains("color") == true)
        }
        #expect(log.level == .info)
        // The router records the refusal with the person.
        #expect(try await recorded().isEmpty)
    }

    @Test("answers requests that the program can no longer carry out")
    func stopping() async throws {
        try await serving {}
        let refusal = await #expect(throws: Refusal.self) {
            try await assembly.reload.reload(by: requester(), dryRun: false)
        }
        #expect(refusal?.code == .overloaded)
    }

    @Test("records the programs' files again after the pause")
    func programsReadAgain() async throws {
        let reading = assembly.lifeRecords.startReadingPrograms(every: .milliseconds(1))
        defer { reading.cancel() }
        try await wait(for: "the programs' digests") {
            let page = try await assembly.ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 10)
            let entry = try page.records.first.map { try AuditEntry(line: $0.line) }
            return entry?.event == "program_digests" && entry?.details["paytokendSha256"]?.stringValue?.count == 64
        }
    }

    @Test("records no values for a refused reload")
    func refusedReload() async throws {
        #expect(try await !reload(Self.text(fixture, log: "{ level: loud }")))
        // The daemon does not wait until a refused reload is recorded. The test therefore waits for the records of a
        // start, which come after the record of the reload.
        try await assembly.lifeRecords.started(
            with: fixture.load(Self.text(fixture, log: "{ level: info, format: json }")))
        let entries = try await recorded()
        #expect(entries.map(\.event) == ["configuration_reload", "configuration_load", "configuration_values"])
        #expect(entries[0].outcome == "malformed_request" && entries[0].details.members.isEmpty)
    }
}
