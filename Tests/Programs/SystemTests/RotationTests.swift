import Foundation
import Locks
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// A whole rotation with the real programs, also under load.
@Suite(.everyEngine) struct RotationTests {
    private static let started = OncePerLedger {
        var configuration = DaemonConfiguration()
        configuration.listener = ["max_connections: 512", "max_connections_per_uid: 512", "admin_mode: \"0666\""]
        configuration.access = [
            "{ user: \"12347\", roles: [monitor] }", "{ user: root, roles: [decrypt, admin, audit] }",
        ]
        let harness = try await DaemonHarness(configuration)
        try harness.directory.open()
        return harness
    }

    private func merchant(_ name: String, _ type: ForgeKeyType, _ harness: DaemonHarness) async throws -> ForgedMerchant
    {
        let merchant = try ForgedMerchant(
            authority: SharedForge.authority, type: type,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.\(name)"))
        let imported = try await harness.importMerchant(merchant)
        try #require(imported.status == 0, "\(imported)")
        return merchant
    }

    /// Issues a certificate for a request, as Apple would, and writes it into a file.
    private func certify(_ request: String, _ merchant: String, to file: String) throws -> Merchant {
        let bytes = try Data(contentsOf: URL(filePath: request))
        let der = try #require(ForgePEM.bytes(of: bytes, label: "CERTIFICATE REQUEST"))
        let certificate = try SharedForge.authority.merchantCertificate(
            certificateSigningRequest: der, profile: MerchantCertificateProfile(merchantIdentifier: merchant))
        try Data(certificate).write(to: URL(filePath: file))
        return try Merchant(certificate: certificate)
    }

    private func decrypt(_ merchant: Merchant, _ harness: DaemonHarness) async throws -> CurlAnswer {
        try await harness.decrypt(SharedForge.mint.mint(TokenRecipe(merchant: merchant)), reference: "r")
    }

    private func status(_ merchant: String, _ harness: DaemonHarness) async throws -> JSONObject {
        let result = try await harness.paytokenctl(["rotate", "status", merchant, "--output", "json"])
        try #require(result.status == 0, "\(result)")
        let items = try JSONValue(parsing: result.outputBytes).arrayValue ?? []
        try #require(items.count == 1)
        return try #require(items[0].objectValue)
    }

    /// A rotation that has begun, with the operator's files `old.pem`, `new.csr` and `new.cer`.
    private struct Rotation {
        let old: Merchant
        /// The new merchant key. Its certificate is in `new.cer`, and is not imported yet.
        let new: Merchant
        let files: FreshDirectory
        var name: String { old.identifier }
    }

    private func begin(_ name: String, _ type: ForgeKeyType, _ harness: DaemonHarness) async throws -> Rotation {
        let files = try FreshDirectory()
        let old = try await merchant(name, type, harness)
        try files.write(ForgePEM.text(old.certificate, label: "CERTIFICATE"), to: "old.pem")
        let start = try await harness.paytokenctl([
            "rotate", "start", old.merchant.identifier, "--out", files.path("new.csr"),
        ])
        try #require(start.status == 0, "\(start)")
        let new = try certify(files.path("new.csr"), old.merchant.identifier, to: files.path("new.cer"))
        return Rotation(old: old.merchant, new: new, files: files)
    }

    /// Begins a rotation and imports the new key's certificate, so that both keys serve.
    private func overlap(_ name: String, _ type: ForgeKeyType, _ harness: DaemonHarness) async throws -> Rotation {
        let begun = try await begin(name, type, harness)
        let imported = try await harness.paytokenctl(["rotate", "import", begun.files.path("new.cer")])
        try #require(imported.status == 0, "\(imported)")
        return begun
    }

    @Test("refuses to finish a rotation of a merchant that has none", arguments: [ForgeKeyType.p256, .rsa2048])
    func noRotation(type: ForgeKeyType) async throws {
        let harness = try await Self.started.value
        let name = try await merchant("nothing.\(type)", type, harness).merchant.identifier
        #expect(try await status(name, harness)["phase"]?.stringValue == "none")
        let nothing = try await harness.paytokenctl(["rotate", "finish", name])
        #expect(nothing.status == 1 && nothing.error.contains("no old"), "\(nothing)")
    }

    @Test(
        "makes a key of the old key's type at the first start, but not at a second start or in a dry run",
        arguments: [
            ForgeKeyType.p256, .rsa2048,
        ])
    func start(type: ForgeKeyType) async throws {
        let harness = try await Self.started.value
        let files = try FreshDirectory()
        let name = try await merchant("start.\(type)", type, harness).merchant.identifier
        let dry = try await harness.paytokenctl(["rotate", "start", name, "--out", files.path("x.csr"), "--dry-run"])
        #expect(dry.status == 0 && !FileManager.default.fileExists(atPath: files.path("x.csr")), "\(dry)")
        #expect(try await status(name, harness)["phase"]?.stringValue == "none")

        let start = try await harness.paytokenctl(["rotate", "start", name, "--out", files.path("new.csr")])
        #expect(start.status == 0 && start.output.contains("Next: Upload the request"), "\(start)")
        let again = try await harness.paytokenctl(["rotate", "start", name, "--out", files.path("again.csr")])
        #expect(again.status == 0 && again.error.contains("No key was made"), "\(again)")
        let new = try certify(files.path("new.csr"), name, to: files.path("new.cer"))
        #expect(
            try certify(files.path("again.csr"), name, to: files.path("again.cer")).publicKeyHash == new.publicKeyHash)
        #expect(new.isEllipticCurve == (type == .p256))
        #expect(try await status(name, harness)["phase"]?.stringValue == "certificate")
    }

    @Test(
        "refuses to decrypt with the new key and to finish the old one before the certificate is imported",
        arguments: [
            ForgeKeyType.p256, .rsa2048,
        ])
    func beforeImport(type: ForgeKeyType) async throws {
        let harness = try await Self.started.value
        let begun = try await begin("waiting.\(type)", type, harness)
        // Such a payment token arrives if the certificate was activated in Apple's portal before its import.
        #expect(try await decrypt(begun.new, harness).code == "key_not_active")
        let shown = try await harness.paytokenctl(["rotate", "status", begun.name])
        #expect(shown.output.contains("activated already"), "\(shown)")
        let unfinished = try await harness.paytokenctl(["rotate", "finish", begun.name, "--force"])
        #expect(unfinished.status == 1 && unfinished.error.contains("no certificate yet"), "\(unfinished)")
        let wrong = try await harness.paytokenctl(["rotate", "import", begun.files.path("old.pem")])
        #expect(wrong.status == 1 && wrong.error.hasPrefix("certificate_unsuitable"), "\(wrong)")
        #expect(wrong.error.contains("another key of the merchant"), "\(wrong)")
    }

    @Test(
        "serves with both keys without a restart when the certificate is imported",
        arguments: [ForgeKeyType.p256, .rsa2048]
    )
    func afterImport(type: ForgeKeyType) async throws {
        let harness = try await Self.started.value
        let begun = try await begin("imported.\(type)", type, harness)
        #expect(try await decrypt(begun.new, harness).code == "key_not_active")
        #expect(try await decrypt(begun.old, harness).status == 200)
        let dry = try await harness.paytokenctl(["rotate", "import", begun.files.path("new.cer"), "--dry-run"])
        #expect(dry.status == 0, "\(dry)")
        #expect(try await status(begun.name, harness)["phase"]?.stringValue == "certificate")
        for _ in 0..<2 {
            let imported = try await harness.paytokenctl(["rotate", "import", begun.files.path("new.cer")])
            // The early payment token could not be decrypted, so it does not prove an activation.
            #expect(imported.status == 0 && imported.output.contains("Next: Activate the certificate"), "\(imported)")
        }
        let inactive = try await harness.paytokenctl(["rotate", "finish", begun.name])
        #expect(inactive.status == 1 && inactive.error.contains("The old key opened 1 payment token"), "\(inactive)")
        let second = try await harness.paytokenctl(["rotate", "start", begun.name])
        #expect(second.status == 1 && second.error.hasPrefix("invalid_state"), "\(second)")
        for key in [begun.new, begun.old] { #expect(try await decrypt(key, harness).status == 200) }
        let overlap = try await status(begun.name, harness)
        #expect(overlap["phase"]?.stringValue == "overlap")
        #expect(overlap["newKey"]?.objectValue?["openedLastHour"]?.numberValue?.int == 1)
        #expect(overlap["oldKeys"]?.arrayValue?.first?.objectValue?["openedLastHour"]?.numberValue?.int == 2)
    }

    @Test(
        "finishes the old key with --force while it is in use, and still decrypts late payment tokens",
        arguments: [
            ForgeKeyType.p256, .rsa2048,
        ])
    func finishedInUse(type: ForgeKeyType) async throws {
        let harness = try await Self.started.value
        let begun = try await overlap("finished.\(type)", type, harness)
        for key in [begun.old, begun.new, begun.old] { #expect(try await decrypt(key, harness).status == 200) }
        let refused = try await harness.paytokenctl(["rotate", "finish", begun.name])
        #expect(refused.status == 1 && refused.error.contains("The old key opened 2 payment tokens"), "\(refused)")
        let tried = try await harness.paytokenctl(["rotate", "finish", begun.name, "--force", "--dry-run"])
        #expect(tried.status == 0, "\(tried)")
        #expect(try await status(begun.name, harness)["phase"]?.stringValue == "overlap")

        let finished = try await harness.paytokenctl([
            "rotate", "finish", begun.name, "--force", "--output", "json",
        ])
        #expect(finished.status == 0, "\(finished)")
        let hash = Data(begun.old.publicKeyHash).base64EncodedString()
        let answer = try JSONValue(parsing: finished.outputBytes).objectValue
        #expect(answer?["retired"]?.arrayValue?.compactMap(\.stringValue) == [hash])
        #expect(answer?["cutOff"]?.stringValue != nil)
        for key in [begun.new, begun.old] { #expect(try await decrypt(key, harness).status == 200) }
        #expect(try await status(begun.name, harness)["phase"]?.stringValue == "cut-off")
        let shown = try await harness.paytokenctl(["key", "show", hash, "--output", "json"])
        #expect(try JSONValue(parsing: shown.outputBytes).string("state") == "deactivated")
    }

    @Test(
        "records one key generation, each certificate request, and one change of state",
        arguments: [
            ForgeKeyType.p256, .rsa2048,
        ])
    func recordedSteps(type: ForgeKeyType) async throws {
        let harness = try await Self.started.value
        let begun = try await begin("recorded.\(type)", type, harness)
        for arguments in [
            ["start", begun.name, "--out", begun.files.path("again.csr")], ["import", begun.files.path("new.cer")],
            ["finish", begun.name, "--force", "--dry-run"], ["finish", begun.name, "--force"],
        ] {
            let result = try await harness.paytokenctl(["rotate"] + arguments)
            try #require(result.status == 0, "\(arguments): \(result)")
        }
        let record = try await harness.paytokenctl(["audit", "list", "--merchant", begun.name, "--output", "json"])
        let events = try (JSONValue(parsing: record.outputBytes).arrayValue ?? [])
            .filter { $0.string("outcome") == "ok" }.compactMap { $0.string("event") }
        #expect(events.filter { $0 == "key_generate" }.count == 1, "\(events)")
        #expect(events.filter { $0 == "csr_create" }.count == 2, "\(events)")
        #expect(events.filter { $0 == "key_state_change" }.count == 1, "\(events)")
    }

    @Test("decrypts payment tokens for the old key until the cut-off, which is immediate for 0s")
    func cutOff() async throws {
        let harness = try await Self.started.value
        for cutOff in ["2s", "0s"] {
            let begun = try await overlap("cutoff.\(cutOff)", .p256, harness)
            let early = try await harness.paytokenctl(["rotate", "finish", begun.name])
            #expect(early.status == 1 && early.error.contains("The new key has opened no "), "\(early)")
            #expect(try await decrypt(begun.new, harness).status == 200)
            // No payment token arrived for the old key, so --force is not needed.
            let finished = try await harness.paytokenctl(["rotate", "finish", begun.name, "--cut-off", cutOff])
            #expect(finished.status == 0, "\(finished)")
            try await wait(for: "the cut-off to pass") {
                let answer = try await decrypt(begun.old, harness)
                #expect(answer.status == 200 || answer.code == "key_not_active", "\(answer)")
                return answer.code == "key_not_active"
            }
            #expect(try await decrypt(begun.new, harness).status == 200)
            #expect(try await status(begun.name, harness)["phase"]?.stringValue == "none")
        }
    }

    /// Returns a request in which the publicKeyHash is replaced. Apple's signature does not cover it.
    private func rewritten(_ paymentToken: MintedToken, to other: Merchant) -> [UInt8] {
        func base64(_ hash: [UInt8]) -> String { Data(hash).base64EncodedString() }
        return Array(
            String(decoding: paymentToken.decryptBody(reference: "r"), as: UTF8.self)
                .replacing("\\/", with: "/")
                .replacing(base64(paymentToken.publicKeyHash), with: base64(other.publicKeyHash)).utf8)
    }

    @Test("counts altered and replayed payment tokens as decrypted for neither key")
    func rewrittenTokens() async throws {
        let harness = try await Self.started.value
        let begun = try await overlap("rewritten", .p256, harness)
        let other = try await merchant("rewriter", .p256, harness)
        let (name, old, new) = (begun.name, begun.old, begun.new)
        func send(_ paymentToken: MintedToken, as key: Merchant) async throws {
            let answer = try await harness.decrypt(rewritten(paymentToken, to: key))
            #expect(answer.code == "decryption_failed", "\(answer)")
        }

        let stolen = try SharedForge.mint.mint(TokenRecipe(merchant: other.merchant))
        for _ in 0..<3 { try await send(stolen, as: new) }
        #expect(try await status(name, harness)["phase"]?.stringValue == "activation")
        let early = try await harness.paytokenctl(["rotate", "finish", name])
        #expect(early.status == 1 && early.error.contains("The new key has opened no "), "\(early)")

        let paymentToken = try SharedForge.mint.mint(TokenRecipe(merchant: new))
        #expect(try await harness.decrypt(paymentToken).status == 200)
        for _ in 0..<2 { #expect(try await harness.decrypt(paymentToken).code == "transaction_replayed") }
        for _ in 0..<2 { try await send(stolen, as: old) }
        let shown = try await status(name, harness)
        #expect(shown["phase"]?.stringValue == "finish")
        let (newKey, oldKey) = (shown["newKey"]?.objectValue, shown["oldKeys"]?.arrayValue?.first?.objectValue)
        #expect(newKey?["openedLastHour"]?.numberValue?.int == 1 && newKey?["refusedLastHour"]?.numberValue?.int == 3)
        #expect(oldKey?["openedLastHour"]?.numberValue?.int == 0 && oldKey?["refusedLastHour"]?.numberValue?.int == 2)
        #expect(shown["remarks"]?.arrayValue?.contains { $0.stringValue?.contains("unverified") == true } == true)
        let finished = try await harness.paytokenctl(["rotate", "finish", name])
        #expect(finished.status == 0, "\(finished)")
    }

    @Test("loses no request with either key under load during the whole rotation")
    func underLoad() async throws {
        let harness = try await Self.started.value
        let files = try FreshDirectory()
        let old = try await merchant("load", .p256, harness)
        let name = old.merchant.identifier
        let load = Load(old.merchant)
        let clients = Task {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        while let merchant = load.recipient {
                            load.count(try await decrypt(merchant, harness), for: merchant)
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
        func more(_ count: Int, _ merchant: Merchant) async throws {
            let before = load.released(merchant)
            try await wait(for: "\(count) more releases", within: 120) { load.released(merchant) >= before + count }
        }
        try await more(10, old.merchant)
        #expect(try await harness.paytokenctl(["rotate", "start", name, "--out", files.path("new.csr")]).status == 0)
        let new = try certify(files.path("new.csr"), name, to: files.path("new.cer"))
        try await more(10, old.merchant)
        #expect(try await harness.paytokenctl(["rotate", "import", files.path("new.cer")]).status == 0)
        // After the activation at Apple, wallets begin to use the new key one by one.
        load.add(new)
        try await more(20, new)
        try await more(20, old.merchant)
        #expect(try await harness.paytokenctl(["rotate", "finish", name]).status == 1)
        #expect(try await harness.paytokenctl(["rotate", "finish", name, "--force", "--cut-off", "1h"]).status == 0)
        try await more(20, new)
        try await more(20, old.merchant)
        load.stop()
        try await clients.value
        #expect(load.failures.isEmpty, "\(load.failures)")
        #expect(load.released(old.merchant) >= 60 && load.released(new) >= 40)
        print(
            "rotation under load: \(load.released(old.merchant)) releases under the old key, "
                + "\(load.released(new)) under the new one, \(load.failures.count) failures")
    }

    @Test(
        "lets a caller with the role monitor list rotations, but not start one",
        .enabled(if: PeerIdentity.available, "only root can be another"))
    func monitorRole() async throws {
        let harness = try await Self.started.value
        let monitor = PeerIdentity(uid: 12347, gid: 12347)
        let list = try await Curl.request("/v1/rotations", socket: harness.adminSocket, as: monitor)
        #expect(list.status == 200, "\(list)")
        for path in ["/v1/rotations", "/v1/rotations/certificate", "/v1/rotations/m/finish", "/v1/keys"] {
            let refused = try await Curl.request(
                path, socket: harness.adminSocket, body: Array("{}".utf8), as: monitor)
            #expect(refused.status == 403 && refused.code == "forbidden", "\(path): \(refused)")
        }
        let unknown = try await harness.paytokenctl(["rotate", "start", "merchant.com.example.unknown"])
        #expect(unknown.status == 1 && unknown.error.hasPrefix("key_not_found"), "\(unknown)")
    }
}

/// The requests of the clients during the rotation.
private final class Load: Sendable {
    private struct State {
        var recipients: [Merchant]
        var released: [[UInt8]: Int] = [:]
        var failures: [String] = []
        var stopped = false
    }

    private let state: Mutex<State>

    init(_ merchant: Merchant) { state = Mutex(State(recipients: [merchant])) }

    /// The recipient of the next payment token, or nil to stop.
    var recipient: Merchant? { state.withLock { $0.stopped ? nil : $0.recipients.randomElement() } }

    func add(_ merchant: Merchant) { state.withLock { $0.recipients.append(merchant) } }

    func stop() { state.withLock { $0.stopped = true } }

    func count(_ answer: CurlAnswer, for merchant: Merchant) {
        state.withLock { state in
            if answer.status == 200 {
                state.released[merchant.publicKeyHash, default: 0] += 1
            } else {
                state.failures.append(answer.description)
            }
        }
    }

    func released(_ merchant: Merchant) -> Int { state.withLock { $0.released[merchant.publicKeyHash] ?? 0 } }

    var failures: [String] { state.withLock { $0.failures } }
}
