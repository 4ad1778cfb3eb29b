import CommandOutput
import DaemonAPI
import Foundation
import Glibc
import NIOHTTP1
import TestSupport
import Testing

@testable import paytokenctl

@Suite("The file of Google's root keys")
struct RootKeyFileTests {
    @Test("shows the root keys of Google Pay in status, and how to get one if none counts")
    func googleRootKeys() async throws {
        for (keys, line) in [
            (
                #"{"notAfter":"2030-01-31T12:00:00Z","sha256":"\#(String(repeating: "ab", count: 32))"}"#,
                "Google Pay  abababab until 2030-01-31T12:00:00Z\n"
            ),
            ("", "Google Pay  no root key counts: paytokenctl trust google-pay fetch, then accept\n"),
        ] {
            let status = Sample.status().replacing(#""roots":[],"#, with: #""roots":[],"googlePay":[\#(keys)],"#)
            let daemon = try await FakeDaemon(["GET /v1/status": .ok(status)])
            let result = try await Command.paytokenctl(["status", "--wide"], socket: daemon.path)
            #expect(result.output.contains(line), "\(result)")
        }
    }

    @Test(
        "is fresh for max-age minus Age, at most seven days",
        arguments: [
            ([("Cache-Control", "public, max-age=3600")], 3600),
            ([("Cache-Control", "public"), ("Cache-Control", "Max-Age=3600"), ("Age", "600")], 3000),
            ([("Cache-Control", "max-age=3600"), ("Age", "3600")], 0),
            ([("Cache-Control", "max-age=3600"), ("Age", "soon")], 0),
            ([("Cache-Control", "max-age=3600"), ("Age", "-1")], 0),
            ([("Cache-Control", "max-age=9999999")], 604_800),
            ([("Cache-Control", "max-age=99999999999999999999")], 604_800),
            ([("Cache-Control", "max-age=99999999999999999999"), ("Age", "99999999999999999999")], 0),
            ([("Cache-Control", "max-age=3600, max-age=60")], 60),
            ([("Cache-Control", "max-age=3600, no-cache")], 0), ([("Cache-Control", "no-store, max-age=60")], 0),
            ([("Cache-Control", "max-age=x")], 0), ([("Cache-Control", "max-age")], 0), ([("Age", "0")], 0), ([], 0),
        ] as [([(String, String)], Int)])
    func freshness(_ fields: [(String, String)], _ seconds: Int) {
        #expect(Freshness.seconds(HTTPHeaders(fields)) == seconds)
    }

    @Test("takes a fingerprint of 64 digits in either case, with colons or without, and no part of one")
    func fingerprints() {
        let hex = String(repeating: "aB", count: 32)
        #expect(RootKeyFingerprint(argument: hex)?.hex == hex.lowercased())
        let colons = Array(repeating: "AB", count: 32).joined(separator: ":")
        #expect(RootKeyFingerprint(argument: colons)?.hex == hex.lowercased())
        for text in ["", "ab", String(hex.dropLast()), String(hex.dropLast(2)), hex + "00", "g" + hex.dropFirst()] {
            #expect(RootKeyFingerprint(argument: text) == nil, "\(text)")
        }
    }

    @Test("replaces a file by a complete one with the given mode, after a command that was killed too")
    func replacement() throws {
        let directory = try FreshDirectory()
        let path = try directory.write("old", to: "keys.json", mode: 0o600)
        try directory.write("the remains of a command", to: "keys.json.partial")
        do {
            let unpublished = try NewFile(path, mode: 0o644, replacing: true)
            try unpublished.write(Array("half".utf8))
        }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "old")
        let file = try NewFile(path, mode: 0o644, replacing: true)
        try file.write(Array("new".utf8))
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "old")
        try file.publish()
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "new")
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o644)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["keys.json"])
    }

    @Test("is replaced by one command at a time, and through no link that waits under the temporary name")
    func one() throws {
        let directory = try FreshDirectory()
        let path = directory.path("keys.json")
        let victim = try directory.write("victim", to: "victim")
        try FileManager.default.createSymbolicLink(atPath: path + ".partial", withDestinationPath: victim)
        let first = try NewFile(path, mode: 0o644, replacing: true)
        let refused = try #require(throws: CommandFailure.self) {
            _ = try NewFile(path, mode: 0o644, replacing: true)
        }
        #expect(refused.status == .tryAgainLater)
        try first.write([1])
        try first.publish()
        #expect(try String(contentsOfFile: victim, encoding: .utf8) == "victim")
        let gone = try #require(throws: CommandFailure.self) {
            _ = try NewFile(directory.path("nowhere/keys.json"), replacing: true)
        }
        #expect(gone.status == .unreadable)
    }
}
