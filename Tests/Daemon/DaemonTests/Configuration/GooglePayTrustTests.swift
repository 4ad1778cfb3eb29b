import Foundation
import GooglePayToken
import Logging
import TestSupport
import Testing
import TokenForge

@testable import Daemon
@testable import DaemonConfiguration
@testable import UsageRecording

@Suite("The configuration of Google's root keys")
struct GooglePayTrustTests {
    private static let text =
        ConfigurationFixture.minimum + "trust: { google_pay: a.json, google_pay_fetched: f.json }\n"
    private let fixture: ConfigurationFixture
    private let old = GooglePayForge()
    private let new = GooglePayForge()
    private let nextYear = Date(timeIntervalSince1970: 1_900_000_000)

    init() throws {
        fixture = try ConfigurationFixture()
        try write([old], to: "a.json")
    }

    private func write(_ forges: [GooglePayForge], to name: String, fetched: Date? = nil) throws {
        let keys = try GoogleRootKeys(
            parsing: GooglePayText.rootKeys(
                forges.map { ($0.root.publicKey, "ECv2", GooglePayText.time(nextYear)) })
        ).keys
        let fetch = fetched.map { GoogleRootFile.Fetch(at: $0, freshUntil: $0) }
        try fixture.directory.write(GoogleRootFile(keys: keys, fetch: fetch).json, to: name)
    }

    private func hex(_ forge: GooglePayForge) throws -> String {
        let keys = try GoogleRootKeys(parsing: forge.rootKeys(expiration: nextYear)).keys
        return keys[0].sha256.hexadecimal
    }

    private func settings(_ configuration: Configuration) -> [String] {
        configuration.warnings.map(\.setting.rawValue).filter { $0.hasPrefix("google_pay") }
    }

    @Test("trusts a fetched key once a person has accepted it, and records which key is in one file only")
    func accepted() throws {
        try write([new], to: "f.json", fetched: Date())
        let before = try fixture.load(Self.text)
        #expect(before.trust.googlePay?.roots.keys.isEmpty == true)
        #expect(settings(before) == ["google_pay_root_keys_differ"])
        let values = before.recordedValues
        #expect(try values["trust.google_pay_not_accepted"] == hex(new) && values["trust.google_pay_roots"] == "")
        #expect(try values["trust.google_pay_vanished"] == hex(old))
        #expect(values["trust.google_pay_fetched"] == fixture.directory.path("f.json"))
        #expect(values["trust.google_pay_auto_accept"] == "false")

        try write([new], to: "a.json")
        let after = try fixture.load(Self.text)
        #expect(try after.recordedValues["trust.google_pay_roots"] == hex(new) && settings(after) == [])
    }

    @Test("trusts the accepted keys alone, with an insecure setting, while the fetched file is missing or damaged")
    func unusable() throws {
        for content in [nil, "", "{\"keys\": []}", String(repeating: " ", count: 70_000)] {
            if let content { try fixture.directory.write(content, to: "f.json") }
            let configuration = try fixture.load(Self.text)
            #expect(try configuration.recordedValues["trust.google_pay_roots"] == hex(old))
            #expect(settings(configuration) == ["google_pay_fetched_unusable"], "\(content ?? "no file")")
            #expect(
                configuration.warnings.contains { $0.setting == .googlePayFetchedUnusable && $0.setting.isInsecure })
        }
    }

    @Test("accepts every fetched key with auto_accept, as an insecure setting")
    func automatic() throws {
        try write([new], to: "f.json", fetched: Date())
        let text = Self.text.replacing(" }", with: ", google_pay_auto_accept: true }")
        let configuration = try fixture.load(text)
        #expect(try configuration.recordedValues["trust.google_pay_roots"] == hex(new))
        #expect(settings(configuration).sorted() == ["google_pay_auto_accept", "google_pay_root_keys_differ"])
    }

    @Test("refuses a fetched file in the place of the accepted one, and settings without the file they need")
    func problems() throws {
        try write([new], to: "f.json", fetched: Date())
        let trust = { (settings: String) in try fixture.problem("trust: { \(settings) }\n") }
        #expect(try trust("google_pay: f.json").contains("no person has accepted its keys"))
        #expect(try trust("google_pay_fetched: f.json").hasPrefix("6 trust.google_pay_fetched: needs google_pay"))
        #expect(
            try trust("google_pay: a.json, google_pay_auto_accept: true").contains("has no effect without"))
        try fixture.directory.write("{}", to: "a.json")
        #expect(try trust("google_pay: a.json, google_pay_fetched: f.json").contains("no root keys of Google's"))
    }

    @Test("refuses an accepted file that another account can change, in its mode or through its directory")
    func writable() throws {
        try write([old], to: "f.json", fetched: Date())
        let file = fixture.directory.path("a.json")
        #expect(fixture.problems(Self.text) == [])
        try FileManager.default.setAttributes([.posixPermissions: 0o664], ofItemAtPath: file)
        #expect(fixture.problems(Self.text).contains { $0.contains("can be written by others") })
        // Without a second file, a person changes the only one.
        #expect(fixture.problems(ConfigurationFixture.minimum + "trust: { google_pay: a.json }\n") == [])
        let directory = try fixture.directory.makeDirectory("open")
        try FileManager.default.moveItem(atPath: file, toPath: directory + "/a.json")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: directory + "/a.json")
        let text = Self.text.replacing(" a.json", with: " open/a.json")
        #expect(fixture.problems(text) == [])
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: directory)
        #expect(fixture.problems(text).contains { $0.contains("can be written by others") })
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
    }

    @Test("shows the number of keys and the time of the fetch from the files as they are, and puts nothing in force")
    func watched() async throws {
        let fetched = Date(timeIntervalSince1970: 1_800_000_000)
        try write([old], to: "f.json", fetched: fetched)
        let instruments = Instruments()
        let live = try LiveConfiguration(fixture.load(Self.text), instruments: instruments)
        let watch = GoogleRootKeyWatch(
            live: live, instruments: instruments, clock: .system, logger: Logger(label: "test"))
        func counts() -> [Double?] {
            ["trusted", "not_accepted", "vanished"].map { instruments.googlePayRootKeys.value([$0]) }
        }
        #expect(await watch.run() == nil && counts() == [1, 0, 0])
        #expect(instruments.googlePayFetched.value() == 1_800_000_000)

        try write([new], to: "f.json", fetched: fetched)
        let difference = try #require(await watch.run())
        #expect(try difference.contains(hex(new)) && difference.contains(hex(old)))
        #expect(
            try counts() == [1, 1, 1] && live.policies.current.googlePay?.keys.map(\.sha256.hexadecimal) == [hex(old)])

        try fixture.directory.write("{", to: "f.json")
        #expect(await watch.run() != nil && counts() == [1, 0, 0] && instruments.googlePayFetched.value() == 0)
        try fixture.directory.write("{", to: "a.json")
        #expect(await watch.run()?.contains("a.json") == true && counts() == [1, 0, 0])
    }
}
