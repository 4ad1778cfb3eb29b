import AuditChain
import Foundation
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
