import Crypto
import Foundation
import Glibc
import PortalSimulator
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// `paytokenctl trust google-pay fetch` over TLS to a server that plays Google's host.
@Suite struct GoogleRootKeyTests {
    private let files: FreshDirectory
    private let server: GoogleKeysServer
    private let forge = GooglePayForge()
    static let nextYear = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down) + 365 * 86_400)

    init() async throws {
        (files, server) = try await Self.server()
    }

    static func server(
        for host: String = GoogleKeysServer.host
    ) async throws -> (files: FreshDirectory, server: GoogleKeysServer) {
        let files = try FreshDirectory()
        try await files.writeServerCertificate(for: host)
        let server = try await GoogleKeysServer(
            certificate: files.path("server.crt"), privateKey: files.path("server.key"))
        return (files, server)
    }

    static func hex(_ forge: GooglePayForge) -> String {
        SHA256.hash(data: forge.root.publicKey.derRepresentation).hexadecimal
    }

    private func fetch(_ options: [String] = [], from server: GoogleKeysServer? = nil) async throws -> ProgramResult {
        try await Program.run(
            Program.built("paytokenctl"),
            [
                "trust", "google-pay", "fetch", files.path("keys.json"), "--test-server",
                (server ?? self.server).address, "--trust", files.path("root.crt"), "--output", "json",
            ] + options, environment: [:])
    }

    private func content() throws -> String { try String(contentsOfFile: files.path("keys.json"), encoding: .utf8) }

    private func members(_ result: ProgramResult) throws -> JSONObject {
        try #require(try JSONValue(parsing: result.outputBytes).objectValue, "\(result)")
    }

    @Test("fetches Google's file, keeps its keys for ECv2 alone, and names added and removed keys")
    func changes() async throws {
        let new = GooglePayForge()
        let time = GooglePayText.time(Self.nextYear)
        server.set(
            GooglePayText.rootKeys([
                (forge.root.publicKey, "ECv2", time), (forge.root.publicKey, "ECv2SigningOnly", time),
                (new.root.publicKey, "ECv1", nil),
            ]))
        let first = try await fetch()
        #expect(first.status == 0 && first.error.contains("not from Google"), "\(first)")
        #expect(try members(first)["added"] == .array([.string(Self.hex(forge))]))
        #expect(try members(first)["removed"] == .array([]))
        let mode = try FileManager.default.attributesOfItem(atPath: files.path("keys.json"))[.posixPermissions] as? Int
        #expect(mode == 0o644)
        #expect(try !content().contains("ECv1"))

        server.set(new.rootKeys(expiration: Self.nextYear))
        let second = try await fetch()
        #expect(try members(second)["added"] == .array([.string(Self.hex(new))]), "\(second)")
        #expect(try members(second)["removed"] == .array([.string(Self.hex(forge))]))
        #expect(server.targets == ["/paymentmethodtoken/keys.json", "/paymentmethodtoken/keys.json"])
        let test = try await fetch(["--test"])
        #expect(test.status == 0 && server.targets.last == "/paymentmethodtoken/test/keys.json")
    }

    @Test("makes no request while the file is fresh, unless it must")
    func fresh() async throws {
        server.set(forge.rootKeys(expiration: Self.nextYear), ["Cache-Control: public, max-age=3600", "Age: 60"])
        #expect(try await fetch().status == 0)
        let before = try content()
        let again = try await fetch()
        #expect(again.status == 0 && again.error.contains("the file is fresh until"), "\(again)")
        #expect(try members(again)["status"] == .string("fresh"))
        #expect(try content() == before && server.targets.count == 1)
        #expect(try await fetch(["--now"]).status == 0 && server.targets.count == 2)
        // The TEST environment's keys are others.
        #expect(try await fetch(["--test"]).status == 0)
    }

    @Test("refuses any other answer than Google's file with a key that counts, and keeps the old file")
    func refused() async throws {
        server.set(forge.rootKeys(expiration: Self.nextYear))
        #expect(try await fetch().status == 0)
        let before = try content()
        let elsewhere = try await Self.server().server
        elsewhere.set(forge.rootKeys(expiration: Self.nextYear))
        var offCurve = forge.root.publicKey.derRepresentation
        offCurve[90] ^= 1
        let good = forge.root.publicKey.derRepresentation.base64EncodedString()
        func file(_ key: String) -> [UInt8] {
            Array(
                """
                {"keys":[{"keyValue":"\(good)","protocolVersion":"ECv2","keyExpiration":"2154841200000"},\
                {"keyValue":"\(key)","protocolVersion":"ECv2","keyExpiration":"2154841200000"}]}
                """.utf8)
        }
        let answers: [(body: [UInt8], http: Int, fields: [String], status: Int32, reason: String)] = [
            ([], 302, ["Location: https://\(elsewhere.address)/"], 69, "redirects are not followed"),
            (forge.rootKeys(expiration: Self.nextYear), 404, [], 69, "the status 404"),
            ([UInt8](repeating: 0x20, count: 70_000), 200, [], 1, "longer than 65536 bytes"),
            (GooglePayText.rootKeys([(forge.root.publicKey, "ECv1", nil)]), 200, [], 1, "no entry has"),
            (file(offCurve.base64EncodedString()), 200, [], 1, "keys[1].keyValue is not"),
            (forge.rootKeys(expiration: Date().addingTimeInterval(-60)), 200, [], 1, "each key for ECv2 has expired"),
            (
                file(
                    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGnJ7Yo1sX9b4kr4Aa5uq58JRQfzD8bIJXw7WXaap/hVE"
                        + "+PnFxvjx4nVxt79SdRuUVeu++HZD0cGAv4IOznc96w=="), 200, [], 1, "Google's TEST environment"
            ),
            (Array("<html>".utf8), 200, [], 1, "is refused"), ([], 200, [], 1, "is refused"),
        ]
        for answer in answers {
            server.set(answer.body, status: answer.http, answer.fields)
            let result = try await fetch()
            #expect(result.status == answer.status && result.error.contains(answer.reason), "\(result)")
            #expect(try content() == before, "\(answer.reason)")
        }
        #expect(elsewhere.targets.isEmpty)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: files.path).allSatisfy { !$0.hasSuffix(".partial") })
    }

    @Test("refuses a server whose certificate is for another host or of an unknown authority, and one that is away")
    func otherHost() async throws {
        let (otherFiles, other) = try await Self.server(for: "payments.example.com")
        other.set(forge.rootKeys(expiration: Self.nextYear))
        let name = try await fetch(["--trust", otherFiles.path("root.crt")], from: other)
        #expect(name.status == 69 && name.error.contains("with a certificate for that host"), "\(name)")
        let authority = try await fetch(from: other)
        #expect(authority.status == 69 && other.targets.isEmpty, "\(authority)")
        await other.stop()
        #expect(try await fetch(from: other).status == 69)
        #expect(!FileManager.default.fileExists(atPath: files.path("keys.json")))
    }

    @Test("replaces no file that it has not written, and writes where it may, one command at a time")
    func places() async throws {
        server.set(forge.rootKeys(expiration: Self.nextYear))
        for content in [forge.rootKeys(expiration: Self.nextYear), Array("precious".utf8)] {
            try files.write(content, to: "keys.json")
            let result = try await fetch()
            #expect(result.status == 66 && self.server.targets.isEmpty, "\(result)")
            #expect(try Array(self.content().utf8) == content)
        }
        try FileManager.default.removeItem(atPath: files.path("keys.json"))
        let directory = unsafe open(files.path, O_RDONLY | O_DIRECTORY)
        #expect(flock(directory, LOCK_EX | LOCK_NB) == 0)
        let second = try await fetch()
        #expect(second.status == 75 && server.targets.isEmpty, "\(second)")
        close(directory)
        #expect(try await fetch().status == 0)
        let nowhere = try await Program.run(
            Program.built("paytokenctl"),
            ["trust", "google-pay", "fetch", "/proc/keys.json", "--test-server", server.address], environment: [:])
        #expect(nowhere.status == 66 && server.targets.count == 1, "\(nowhere)")
    }
}
