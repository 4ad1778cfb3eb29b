import AuditChain
import Foundation
import StrictJSON
import TestSupport
import Testing

@testable import AuditReport

/// The programs that opened payments according to the audit record, compared with the packages' lists of components.
@Suite("The report's programs")
struct ProgramsTests {
    private static let daemon = AuditDigest.of(Array("paytokend 1".utf8))
    private static let worker = AuditDigest.of(Array("paytokend-hsm 1".utf8))
    private static let library = AuditDigest.of(Array("library 1".utf8))
    private static let otherLibrary = AuditDigest.of(Array("library 2".utf8))

    private static func list(_ daemon: AuditDigest, _ worker: AuditDigest, version: String = "1.0.0-1") -> [UInt8] {
        func component(_ name: String, _ digest: AuditDigest) -> String {
            #"{"type":"application","name":"\#(name)","hashes":[{"alg":"SHA-256","content":"\#(digest.hex)"}]}"#
        }
        let components = [
            #"{"type":"library","name":"swift-nio","version":"2.0.0"}"#, component("/usr/bin/paytokend", daemon),
            component("/usr/libexec/paytokend/paytokend-hsm", worker),
        ].joined(separator: ",")
        return Array(
            """
            {"bomFormat":"CycloneDX","specVersion":"1.6","metadata":{"component":{"name":"paytokend",\
            "version":"\(version)"}},"components":[\(components)]}
            """.utf8)
    }

    private static func start(
        _ daemon: AuditDigest?, _ worker: AuditDigest?, sbom: AuditDigest? = nil, library: AuditDigest? = library
    ) -> AuditEvent {
        .start(
            version: AuditText("1.0.0"),
            programs: ProgramDigests(
                daemon: daemon, worker: worker, sbom: sbom, modules: library.map { ["primary": $0] } ?? [:]))
    }

    @Test("lists programs when a file differs from the one before, of each node by itself")
    func changes() async throws {
        var book = RecordBook()
        try book.add(Self.start(nil, nil, library: nil), at: 0)
        try book.add(Self.start(Self.daemon, Self.worker), at: 1)
        try book.add(Self.start(Self.daemon, Self.worker), at: 2)
        try book.add(.moduleChange(from: Self.library, to: Self.otherLibrary), at: 3, hsmToken: "primary")
        try book.add(.moduleChange(from: Self.otherLibrary, to: nil), at: 4, hsmToken: "primary")
        try book.add(Self.start(Self.daemon, Self.daemon), at: 5)
        try book.add(Self.start(Self.daemon, Self.worker), on: "node-2", at: 6)
        let builder = try book.counted()
        let programs = builder.system.sortedNodes.map { $0.programs.map(\.place.sequence) }
        #expect(programs == [[1, 2, 4, 5, 6], [1]])
        let modules = builder.system.sortedNodes[0].programs.map { $0.modules["primary"] }
        #expect(modules == [nil, Self.library.hex, Self.otherLibrary.hex, nil, Self.library.hex])
        try await book.expectRecounted()
    }

    @Test("lists programs that changed on the disk at the weekly reading, and counts the readings")
    func readings() async throws {
        var book = RecordBook()
        try book.add(Self.start(Self.daemon, Self.worker), at: 1)
        for (worker, hours) in [(Self.worker, 168.0), (Self.daemon, 336), (Self.daemon, 2000)] {
            try book.add(
                .programDigests(
                    ProgramDigests(daemon: Self.daemon, worker: worker, modules: ["primary": Self.library])), at: hours)
        }
        let node = try book.counted().system.sortedNodes[0]
        #expect(node.programs.map(\.place.sequence) == [1, 3] && node.programReadings.count == 2)
        try await book.expectRecounted()
    }

    @Test("shows since when secrets are unchanged, and where the record or the digests' key begins with them")
    func credentials() async throws {
        var book = RecordBook()
        for (hours, key, pin) in [(24.0, "k", "1"), (48, "k", "2"), (72, "k", "2"), (96, "other", "3")] {
            for (node, pin) in [("node-1", pin), ("node-2", hours < 96 ? pin : "2")]
            where node == "node-1" || hours < 96 {
                var values = ConfigurationValues()
                values.set("credentials.key", ConfigurationValue(.of(Array(key.utf8))))
                values.set("tokens.primary.pin_digest", ConfigurationValue(.of(Array(pin.utf8))))
                for event in values.events() { try book.add(event, on: node, at: hours) }
            }
        }
        try await book.expectRecounted()
        let credentials = try #require(book.report(to: 24 * 31).objectValue?["credentials"]?.arrayValue).compactMap(
            \.objectValue)
        #expect(credentials.map { $0["record"]?.stringValue } == ["node-1 4", "node-2 2"])
        #expect(credentials.map { $0["isBeginning"]?.boolValue } == [true, false])
        #expect(credentials.map { $0["days"]?.numberValue?.int } == [27, 29])
    }

    @Test("finds a program that no given list has, and says so at the table")
    func unlisted() throws {
        let list = try #require(ListedPrograms(file: Self.list(Self.daemon, Self.worker)))
        var book = RecordBook()
        try book.add(Self.start(nil, nil, library: nil), at: 0)
        try book.add(Self.start(Self.daemon, Self.worker, sbom: list.digest), at: 1)
        #expect(try book.counted().unlistedPrograms.isEmpty)
        #expect(try book.page().contains("not compared: no list of components was given"))
        let page = try book.page(listed: [list])
        #expect(page.contains("as listed for version 1.0.0-1") && page.contains("not recorded by this version"))
        #expect(!page.contains("differs from every list given") && !page.contains("A program is not the one"))
        #expect(try book.counted(listed: [list]).unlistedPrograms.isEmpty)

        try book.add(Self.start(Self.daemon, .zero, sbom: list.digest), at: 2)
        #expect(try book.counted(listed: [list]).unlistedPrograms.map(\.place.sequence) == [3])
        let changed = try book.page(listed: [list])
        #expect(changed.contains("differs from every list given") && changed.contains("A program is not the one"))
        // This list contains that worker, but the record of the start names another list's digest.
        let other = try #require(ListedPrograms(file: Self.list(Self.daemon, .zero)))
        #expect(
            try book.counted(listed: [list, other]).unlistedPrograms.map(\.place.sequence) == [3],
            "another list's digest")
        try book.add(Self.start(Self.daemon, .zero, sbom: other.digest), at: 3)
        #expect(try book.counted(listed: [list, other]).unlistedPrograms.map(\.place.sequence) == [3])
    }

    @Test("reads nothing but a list that has both programs")
    func files() {
        #expect(ListedPrograms(file: Self.list(Self.daemon, Self.worker))?.version == "1.0.0-1")
        let text = String(decoding: Self.list(Self.daemon, Self.worker), as: UTF8.self)
        for (part, by) in [
            ("CycloneDX", "SPDX"), ("/usr/bin/paytokend", "/usr/bin/other"), ("paytokend-hsm", "other"),
            ("\"SHA-256\"", "\"SHA-1\""), (Self.worker.hex, "abc"), ("\"version\":\"1.0.0-1\"", "\"v\":1"), ("]}", "]"),
        ] {
            let changed = text.replacing(part, with: by)
            #expect(changed != text && ListedPrograms(file: Array(changed.utf8)) == nil, "\(part)")
        }
    }
}
