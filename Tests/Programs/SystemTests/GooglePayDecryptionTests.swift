import Crypto
import Foundation
import GRDB
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Google Pay through whole programs: a key made by paytokenctl in SoftHSM, and messages encrypted to its public half.
@Suite struct GooglePayDecryptionTests {
    static let merchant = "BCR2DN4TEXAMPLE"
    private static let cryptogram = "AgAAAAAABk4DWZ4C28yUQAAAAAA="

    let forge = GooglePayForge()
    let nextWeek = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down) + 7 * 86_400 - 60)

    func daemon(_ configuration: DaemonConfiguration = DaemonConfiguration()) async throws -> DaemonHarness {
        var configuration = configuration
        configuration.googlePay = "google.json"
        configuration.access = [
            """
            { name: checkout, user: "\(geteuid())", roles: [decrypt, audit, admin], wallets: [apple-pay, google-pay], \
            google_pay: { merchants: [\(Self.merchant)] } }
            """
        ]
        let harness = try await DaemonHarness(prepared: configuration)
        try harness.directory.write(forge.rootKeys(expiration: nextWeek), to: "google.json")
        try await harness.start()
        return harness
    }

    /// Has a key proved, and states that it is in Google's console.
    func activate(_ hash: String, _ harness: DaemonHarness) async throws {
        for command in [["key", "prove"], ["rotate", "added"]] {
            let done = try await harness.paytokenctl(command + [hash])
            #expect(done.status == 0, "\(done)")
        }
    }

    /// Makes a key that serves, and returns its hash in hex and its public half as `key public-key` prints it.
    func key(_ harness: DaemonHarness) async throws -> (hash: String, point: [UInt8]) {
        let made = try await newKey(harness)
        try await activate(made.hash, harness)
        return made
    }

    /// Makes a key that waits for its activation.
    func newKey(_ harness: DaemonHarness) async throws -> (hash: String, point: [UInt8]) {
        let made = try await harness.paytokenctl([
            "key", "generate", "--wallet", "google-pay", "--merchant-identifier", Self.merchant, "--output", "json",
        ])
        #expect(made.status == 0, "\(made)")
        let members = try #require(try JSONValue(parsing: made.output).objectValue)
        #expect(members["use"] == .string("google-pay") && members["state"] == .string("pre-activation"))
        let hash = try #require(members["publicKeyHash"]?.stringValue.flatMap { Data(base64Encoded: $0) })
        let printed = try await harness.paytokenctl(["key", "public-key", Array(hash).hexadecimal])
        #expect(printed.status == 0, "\(printed)")
        let point = try #require(Data(base64Encoded: printed.output.trimmingCharacters(in: .newlines)))
        return (Array(hash).hexadecimal, Array(point))
    }

    func message(
        to point: [UInt8], messageId: String, expiration: Date? = nil
    ) throws -> (json: String, plaintext: [UInt8]) {
        let plaintext = Array(
            """
            {"messageExpiration":"\(GooglePayText.time(expiration ?? nextWeek))","messageId":"\(messageId)","paymentMethod":"CARD",\
            "paymentMethodDetails":{"pan":"4111111111111111","expirationMonth":12,"expirationYear":2030,\
            "authMethod":"CRYPTOGRAM_3DS","cryptogram":"\(Self.cryptogram)"}}
            """.utf8)
        let envelope = try forge.mint(
            plaintext, to: P256.KeyAgreement.PublicKey(x963Representation: point),
            recipient: "merchant:\(Self.merchant)", expiration: nextWeek)
        return (envelope.json, plaintext)
    }

    func decrypt(
        _ token: String, _ harness: DaemonHarness, reference: String = "order-1"
    ) async throws -> CurlAnswer {
        try await Curl.request(
            "/v1/google-pay/decrypt", socket: harness.socket,
            body: Array(
                """
                {"token":\(token),"merchantIdentifier":"\(Self.merchant)","amount":"10.99","currency":"EUR",\
                "reference":"\(reference)"}
                """.utf8))
    }

    @Test("opens messages to two keys of a merchant, each once, and stops with a suspended key")
    func endToEnd() async throws {
        let harness = try await daemon()
        let (old, new) = (try await key(harness), try await key(harness))
        let first = try message(to: old.point, messageId: "one")
        let opened = try await decrypt(first.json, harness)
        #expect(opened.status == 200, "\(opened)")
        #expect(opened.member("paymentData") == (try JSONValue(parsing: first.plaintext)))
        #expect(opened.member("protection") == .string("C") && opened.member("repeated") == .bool(false))
        #expect(try await decrypt(first.json, harness).member("repeated") == .bool(true))
        let replay = try await decrypt(first.json, harness, reference: "order-2")
        #expect(replay.status == 409 && replay.code == "transaction_replayed")
        let again = try message(to: new.point, messageId: "one")
        #expect(try await decrypt(again.json, harness).code == "transaction_replayed")
        let second = try message(to: new.point, messageId: "two")
        #expect(try await decrypt(second.json, harness).status == 200)

        let other = P256.KeyAgreement.PrivateKey().publicKey.x963Representation
        #expect(
            try await decrypt(message(to: Array(other), messageId: "three").json, harness).code == "decryption_failed")
        let suspended = try await harness.paytokenctl(["key", "suspend", old.hash, "--reason", "test"])
        #expect(suspended.status == 0, "\(suspended)")
        let late = try message(to: old.point, messageId: "four")
        #expect(try await decrypt(late.json, harness).code == "decryption_failed")

        let verified = try await harness.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")
        let ended = try await harness.stop()
        #expect(ended.status == 0)
        let written = try harness.files() + [("standard output", ended.outputBytes), ("log", ended.errorBytes)]
        for (path, bytes) in written {
            #expect(!bytes.contains(Array("4111111111111111".utf8)), "\(path)")
            #expect(!bytes.contains(Array(Self.cryptogram.utf8)), "\(path)")
        }
    }

    @Test("releases a message once at two hosts with one HSM and one database, also if both get it at once")
    func twoHosts() async throws {
        let (hsmToken, database) = (try await TokenDirectory(), try await DaemonDatabase())
        defer { withExtendedLifetime(hsmToken) {} }
        let first = try await host("host-1", database, hsmToken)
        let made = try await key(first)
        let second = try await host("host-2", database, hsmToken)
        let paid = try message(to: made.point, messageId: "one").json
        #expect(try await decrypt(paid, first).member("repeated") == .bool(false))
        // The attempt on the other host is the same caller's, which repeats with the same reference alone.
        #expect(try await decrypt(paid, second).member("repeated") == .bool(true))
        #expect(try await decrypt(paid, second, reference: "order-2").code == "transaction_replayed")
        let again = try message(to: made.point, messageId: "one").json
        #expect(try await decrypt(again, second).code == "transaction_replayed")
        for round in 0..<5 {
            let token = try message(to: made.point, messageId: "round-\(round)").json
            async let one = decrypt(token, first, reference: "order-a")
            async let other = decrypt(token, second, reference: "order-b")
            let answers = [try await one, try await other]
            #expect(answers.count { $0.status == 200 } == 1, "\(answers)")
            #expect(answers.count { $0.code == "transaction_replayed" } == 1, "\(answers)")
        }
        for host in [first, second] {
            let verified = try await host.paytokenctl(["audit", "verify"])
            #expect(verified.status == 0, "\(verified)")
            #expect(try await host.stop().status == 0)
        }
    }

    @Test("refuses a merchant's fifth active key before it makes one, also in a dry run")
    func fifthKey() async throws {
        let harness = try await daemon()
        for _ in 0..<4 { _ = try await key(harness) }
        func generate(_ more: [String] = []) async throws -> ProgramResult {
            try await harness.paytokenctl(
                ["key", "generate", "--wallet", "google-pay", "--merchant-identifier", Self.merchant] + more)
        }
        for more in [["--dry-run"], []] {
            let refused = try await generate(more)
            #expect(refused.status == 1 && refused.error.contains("4 Google Pay keys"), "\(refused)")
        }
        let listed = try await harness.paytokenctl(["key", "list", "--output", "json"])
        let keys = try JSONValue(parsing: listed.output).arrayValue
        #expect(keys?.count == 4, "\(listed)")
        let apple = try await harness.paytokenctl(["key", "generate", "--merchant-identifier", Self.merchant])
        #expect(apple.status == 1 && apple.error.contains("looks like a merchant's identifier at Google"), "\(apple)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("refuses a released message after a restart, and repeats it for its caller")
    func restart() async throws {
        let harness = try await daemon()
        let made = try await key(harness)
        let paid = try message(to: made.point, messageId: "one")
        #expect(try await decrypt(paid.json, harness).status == 200)
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        #expect(try await decrypt(paid.json, harness, reference: "order-2").code == "transaction_replayed")
        #expect(try await decrypt(paid.json, harness).member("repeated") == .bool(true))
        #expect(try await harness.stop().status == 0)
    }

    @Test("releases a message once to thirty requests at once, and repeats it for those with the same reference")
    func atOnce() async throws {
        let harness = try await daemon()
        let made = try await key(harness)
        func answers(_ token: String, _ reference: @escaping @Sendable (Int) -> String) async throws -> [CurlAnswer] {
            try await withThrowingTaskGroup(of: CurlAnswer.self) { group in
                for number in 0..<30 {
                    group.addTask { try await decrypt(token, harness, reference: reference(number)) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
        }
        let orders = try await answers(message(to: made.point, messageId: "one").json) { "order-\($0)" }
        #expect(orders.count { $0.status == 200 } == 1)
        #expect(orders.count { $0.status == 409 && $0.code == "transaction_replayed" } == 29)
        let same = try await answers(message(to: made.point, messageId: "two").json) { _ in "order" }
        #expect(same.count { $0.status == 200 && $0.member("repeated") == .bool(false) } == 1)
        #expect(same.count { $0.status == 200 && $0.member("repeated") == .bool(true) } == 29)
        #expect(try await harness.stop().status == 0)
    }

    @Test("releases a message once although the daemon is killed while it opens it")
    func killed() async throws {
        let harness = try await daemon()
        let made = try await key(harness)
        for round in 0..<8 {
            let paid = try message(to: made.point, messageId: "round-\(round)").json
            async let first = try? decrypt(paid, harness)
            // Each round is killed at another step. Every step has the same outcome.
            try await Task.sleep(for: .milliseconds(4 * round))
            try harness.daemon.signal(SIGKILL)
            _ = try await harness.daemon.result()
            let answer = await first
            try await harness.start()
            let second = try await decrypt(paid, harness)
            #expect(second.status == 200, "\(second)")
            if answer?.status == 200 { #expect(second.member("repeated") == .bool(true)) }
            #expect(try await decrypt(paid, harness, reference: "order-2").code == "transaction_replayed")
        }
        let verified = try await harness.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("adopts no Google Pay key of which the ledger has no record, and opens nothing with it")
    func unknownRecord() async throws {
        let harness = try await daemon()
        let made = try await key(harness)
        #expect(try await harness.stop().status == 0)
        let ledger = try DatabaseQueue(path: harness.directory.path("ledger.sqlite"))
        try await ledger.write { try $0.execute(sql: "DELETE FROM merchant_key") }
        try ledger.close()
        try await harness.start()
        let adopted = try await harness.paytokenctl(["key", "adopt", made.hash, "--reason", "test"])
        #expect(adopted.status == 1 && adopted.error.contains("no certificate in the HSM token"), "\(adopted)")
        let refused = try await decrypt(message(to: made.point, messageId: "one").json, harness)
        #expect(refused.code == "unknown_public_key_hash")
        #expect(try await harness.stop().status == 0)
    }
}
