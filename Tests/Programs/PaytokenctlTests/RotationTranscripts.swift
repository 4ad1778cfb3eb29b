import DaemonAPI
import Encodings
import Foundation
import StrictJSON
import TestSupport
import Testing

@Suite("Transcripts: generation, requests and rotations")
struct RotationTranscripts {
    private static let pem = "-----BEGIN CERTIFICATE REQUEST-----\nMIHc\n-----END CERTIFICATE REQUEST-----\n"
    private static let merchant = "merchant.com.example"

    private static func json(_ value: some Encodable) throws -> String {
        String(decoding: try JSONCoding.encode(value), as: UTF8.self)
    }

    private static let noon = RFC3339.date("2026-01-31T12:00:00Z") ?? .distantPast

    private static func key(_ state: String, opened: Int = 0, cutOff: Date? = nil) -> RotationKey {
        RotationKey(
            publicKeyHash: Sample.hash, state: state, condition: "served", createdAt: noon,
            notAfter: state == "pre-activation" ? nil : noon.addingTimeInterval(86_400), cutOff: cutOff,
            tokens: ["primary"], openedLastHour: opened, lastUse: opened == 0 ? nil : noon, refusedLastHour: 0)
    }

    private static func rotation(_ merchant: String = merchant, phase: String = "certificate") -> RotationStatus {
        RotationStatus(
            merchantIdentifier: merchant, algorithm: "EC", phase: phase, next: "In words of the API.",
            newKey: key("pre-activation"), oldKeys: [key("active", opened: 42)],
            steps: [
                RotationStatus.Step(name: "generate", status: "done", text: "New key"),
                RotationStatus.Step(name: "certificate", status: "next", text: "Apple's certificate"),
                RotationStatus.Step(name: "activate", status: "open", text: "Activate it"),
            ], remarks: [])
    }

    private static let shown = """
        Merchant   merchant.com.example
        Use        processing
        Algorithm  EC
        Phase      certificate

        STEP
        generate     done  New key 00010203, since 2026-01-31T12:00:00Z
        certificate  NEXT  Apple's certificate for it: upload the request, then rotate import
        activate     -     Activate the certificate in Apple's developer portal

        KEY  PUBLICKEYHASH                                 STATE           EXPIRES     OPENED/H  UNVERIFIED/H  LAST
        new  \(Sample.hash)  pre-activation  -           0         0             -
        old  \(Sample.hash)  active          2026-02-01  42        0             2026-01-31T12:00:00Z

        Next: \(next)

        """

    private static let next =
        "Upload the request in Apple's developer portal as a Payment Processing Certificate of merchant.com.example, do not "
        + "activate it yet, and import what you download: paytokenctl rotate import FILE. (paytokenctl rotate start "
        + "merchant.com.example --type ec writes the request again.)"

    // MARK: key generate, csr create

    @Test("generates and shows a key with key generate, and prints the daemon's answer with --output json")
    func generate() async throws {
        let sample = Sample.key(merchant: Self.merchant, notAfter: nil, daysLeft: nil, state: "pre-activation")
        let daemon = try await FakeDaemon(["POST /v1/keys": .ok(sample)])
        let arguments = ["key", "generate", "--merchant-identifier", Self.merchant]
        let result = try await Command.paytokenctl(
            arguments + ["--type", "rsa", "--token", "second"], socket: daemon.path)
        #expect(result.status == 0 && result.error == "", "\(result)")
        #expect(result.output.contains("State          pre-activation\n"))
        let request = try JSONCoding.decode(KeyGenerationRequest.self, from: #require(daemon.asked.last).body)
        #expect(request == KeyGenerationRequest(merchantIdentifier: Self.merchant, type: "RSA", token: "second"))
        let json = try await Command.paytokenctl(arguments + ["--output", "json"], socket: daemon.path)
        #expect(json.status == 0 && json.output == sample + "\n")
        #expect(
            try JSONCoding.decode(KeyGenerationRequest.self, from: #require(daemon.asked.last).body)
                == KeyGenerationRequest(merchantIdentifier: Self.merchant))
    }

    @Test("shows the HSM token for the new key with key generate --dry-run")
    func generateDryRun() async throws {
        let daemon = try await FakeDaemon([
            "POST /v1/keys?dry_run=true": .ok(
                try Self.json(
                    KeyGenerationDryRun(merchantIdentifier: Self.merchant, algorithm: "EC", token: "primary")))
        ])
        let result = try await Command.paytokenctl(
            ["key", "generate", "--merchant-identifier", Self.merchant, "--dry-run"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(
            result.output
                == "Merchant   merchant.com.example\nUse        processing\nAlgorithm  EC\nToken      primary\n")
        #expect(result.error == "Dry run: the key can be made. Nothing was changed.\n")
    }

    @Test("writes PEM to standard output or to a new file with csr create, and refuses to overwrite a file")
    func request() async throws {
        let answer = CertificateRequestAnswer(
            publicKeyHash: Sample.hash, merchantIdentifier: Self.merchant, algorithm: "EC", csr: Self.pem)
        let daemon = try await FakeDaemon(["POST /v1/keys/\(Sample.hex)/csr": .ok(try Self.json(answer))])
        let plain = try await Command.paytokenctl(["csr", "create", Sample.hash], socket: daemon.path)
        #expect(plain.status == 0 && plain.output == Self.pem && plain.error == "", "\(plain)")
        let files = try FreshDirectory()
        let arguments = ["csr", "create", Sample.hex, "--out", files.path("new.csr")]
        let written = try await Command.paytokenctl(arguments, socket: daemon.path)
        #expect(written.status == 0 && written.output == "", "\(written)")
        #expect(written.error == "Wrote \(files.path("new.csr")).\n")
        #expect(try String(contentsOfFile: files.path("new.csr"), encoding: .utf8) == Self.pem)
        // The command refuses an existing file before it asks the daemon.
        let asked = daemon.asked.count
        let again = try await Command.paytokenctl(arguments, socket: daemon.path)
        #expect(again.status == 66 && again.error.contains("is there already, and is not overwritten"), "\(again)")
        #expect(daemon.asked.count == asked)
    }

    @Test("leaves no file after a refused request or a dry run")
    func noFile() async throws {
        let dry = CertificateRequestAnswer(
            publicKeyHash: Sample.hash, merchantIdentifier: nil, algorithm: "EC", csr: nil)
        let daemon = try await FakeDaemon([
            "POST /v1/keys/00010203/csr": .refusal(409, "invalid_state", "A key that is suspended gets none."),
            "POST /v1/keys/00010203/csr?dry_run=true": .ok(try Self.json(dry)),
        ])
        let files = try FreshDirectory()
        let arguments = ["csr", "create", "00010203", "--out", files.path("new.csr")]
        let refused = try await Command.paytokenctl(arguments, socket: daemon.path)
        #expect(refused.status == 1 && refused.error.hasPrefix("invalid_state: A key that is suspended gets none.\n"))
        let tried = try await Command.paytokenctl(arguments + ["--dry-run"], socket: daemon.path)
        #expect(tried.status == 0 && tried.error == "Dry run: the request can be made. Nothing was changed.\n")
        #expect(try FileManager.default.contentsOfDirectory(atPath: files.path).isEmpty)
    }

    // MARK: rotate

    @Test("writes the certificate request with rotate start, and shows the rotation's progress and next step")
    func start() async throws {
        let answer = RotationStartAnswer(rotation: Self.rotation(), created: true, csr: Self.pem)
        let daemon = try await FakeDaemon(["POST /v1/rotations": .ok(try Self.json(answer))])
        let files = try FreshDirectory()
        let result = try await Command.paytokenctl(
            ["rotate", "start", Self.merchant, "--type", "ec", "--out", files.path("new.csr")], socket: daemon.path)
        #expect(result.status == 0 && result.output == Self.shown, "\(result)")
        #expect(result.error == "Wrote \(files.path("new.csr")).\n")
        #expect(try String(contentsOfFile: files.path("new.csr"), encoding: .utf8) == Self.pem)
        #expect(
            try JSONCoding.decode(RotationStartRequest.self, from: #require(daemon.asked.last).body)
                == RotationStartRequest(merchantIdentifier: Self.merchant, type: "EC"))
        // Without a file, the command writes only the request to standard output.
        let piped = try await Command.paytokenctl(["rotate", "start", Self.merchant], socket: daemon.path)
        #expect(piped.status == 0 && piped.output == Self.pem, "\(piped)")
        #expect(piped.error == "Next: \(Self.next)\n")
        let json = try await Command.paytokenctl(
            ["rotate", "start", Self.merchant, "--output", "json"], socket: daemon.path)
        #expect(json.output == (try Self.json(answer)) + "\n")
    }

    @Test("says that a second rotate start makes no key, and that a dry run makes neither key nor request")
    func startAgain() async throws {
        let daemon = try await FakeDaemon([
            "POST /v1/rotations": .ok(
                try Self.json(RotationStartAnswer(rotation: Self.rotation(), created: false, csr: Self.pem))),
            "POST /v1/rotations?dry_run=true": .ok(
                try Self.json(RotationStartAnswer(rotation: Self.rotation(), created: true, csr: nil))),
        ])
        let again = try await Command.paytokenctl(["rotate", "start", Self.merchant], socket: daemon.path)
        #expect(again.status == 0 && again.output == Self.pem)
        #expect(again.error.hasPrefix("No key was made: this one waits for its certificate already.\n"))
        let dry = try await Command.paytokenctl(
            ["rotate", "start", Self.merchant, "--dry-run"], socket: daemon.path)
        #expect(dry.status == 0 && dry.output == "")
        #expect(dry.error == "Dry run: the new key can be made. Nothing was changed.\n")
    }

    @Test("sends the certificate with rotate import, and shows the rotation's progress")
    func importCertificate() async throws {
        let merchant = try SharedForge.ecMerchant
        let answer = RotationImportAnswer(
            rotation: Self.rotation(), key: try JSONCoding.decode(KeySummary.self, from: Array(Sample.key.utf8)))
        let daemon = try await FakeDaemon([
            "POST /v1/rotations/certificate": .ok(try Self.json(answer)),
            "POST /v1/rotations/certificate?dry_run=true": .ok(try Self.json(answer)),
        ])
        let files = try FreshDirectory()
        try merchant.write(to: files.url, prefix: "m")
        let result = try await Command.paytokenctl(
            ["rotate", "import", files.path("m.pem"), "--allow-expired"], socket: daemon.path)
        #expect(result.status == 0 && result.output == Self.shown && result.error == "", "\(result)")
        let request = try JSONCoding.decode(CertificateImportRequest.self, from: #require(daemon.asked.last).body)
        #expect(Data(base64Encoded: request.certificate).map(Array.init) == merchant.certificate)
        #expect(request.allowExpired)
        let dry = try await Command.paytokenctl(
            ["rotate", "import", files.path("m.der"), "--dry-run"], socket: daemon.path)
        #expect(dry.status == 0 && dry.output.hasPrefix("Merchant       merchant.com.example\n"))
        #expect(dry.error == "Dry run: the certificate can be imported. Nothing was changed.\n")
        // The command refuses a wrong file before it asks the daemon.
        let asked = daemon.asked.count
        let wrong = try await Command.paytokenctl(["rotate", "import", files.path("none")], socket: daemon.path)
        #expect(wrong.status == 66 && daemon.asked.count == asked)
    }

    @Test("shows one merchant's rotation, all rotations, or that there are none with rotate status")
    func status() async throws {
        let two = [Self.rotation(), Self.rotation("merchant.com.example.other", phase: "overlap")]
        let daemon = try await FakeDaemon([
            "GET /v1/rotations": .ok(try Self.json(ListAnswer(items: two))),
            "GET /v1/rotations/\(Self.merchant)": .ok(try Self.json(ListAnswer(items: [two[0]]))),
            "GET /v1/rotations/a%20b": .refusal(422, "key_not_found", "There is no key of this merchant here."),
        ])
        let one = try await Command.paytokenctl(["rotate", "status", Self.merchant], socket: daemon.path)
        #expect(one.status == 0 && one.output == Self.shown)
        let all = try await Command.paytokenctl(["rotate", "status"], socket: daemon.path)
        #expect(
            all.output == """
                MERCHANT                    USE         TYPE  PHASE        NEW/H  OLD/H  NEXT
                merchant.com.example        processing  EC    certificate  0      42     \(Self.next)
                merchant.com.example.other  processing  EC    overlap      0      42     Wait: the old key opened 42 tokens \
                within the last hour, the last one at 2026-01-31T12:00:00Z.

                """)
        for columns in [100, 60, 46] {
            let fitted = try await Command.inTerminal(columns: columns, ["rotate", "status"], socket: daemon.path)
            #expect(fitted.status == 0 && fitted.output.hasPrefix("MERCHANT"), "\(fitted)")
            #expect(fitted.output.split(separator: "\n").allSatisfy { $0.count <= columns }, "\(fitted)")
        }
        let wide = try await Command.inTerminal(columns: 46, ["rotate", "status", "--wide"], socket: daemon.path)
        #expect(wide.output == all.output && wide.error.isEmpty)
        let json = try await Command.paytokenctl(["rotate", "status", "--output", "json"], socket: daemon.path)
        #expect(json.output == (try Self.json(two)) + "\n")
        let absent = try await Command.paytokenctl(["rotate", "status", "a b"], socket: daemon.path)
        #expect(absent.status == 1)
        #expect(
            absent.error == "key_not_found: There is no key of this merchant here.\nSee: paytokenctl key list, "
                + "paytokenctl help key generate\n")
        let quiet = try await FakeDaemon(["GET /v1/rotations": .ok(#"{"items":[]}"#)])
        let none = try await Command.paytokenctl(["rotate", "status"], socket: quiet.path)
        #expect(none.status == 0 && none.output == "" && none.error == "No rotation is under way.\n")
    }

    @Test("shows the cut-off after rotate finish, exits with 1 for a refusal, and accepts 0s as an immediate cut-off")
    func finish() async throws {
        let end = Self.noon.addingTimeInterval(7 * 86_400)
        let answer = RotationFinishAnswer(rotation: Self.rotation(), retired: [Sample.hash], cutOff: end)
        let daemon = try await FakeDaemon([
            "POST /v1/rotations/\(Self.merchant)/finish": .ok(try Self.json(answer)),
            "POST /v1/rotations/\(Self.merchant)/finish?dry_run=true": .ok(try Self.json(answer)),
            "POST /v1/rotations/busy/finish": .refusal(
                409, "invalid_state", "12 tokens arrived under the old key within the last hour."),
        ])
        func sent() throws -> RotationFinishRequest {
            try RotationFinishRequest(parsing: #require(daemon.asked.last).body)
        }
        let arguments = ["rotate", "finish", Self.merchant]
        let result = try await Command.paytokenctl(arguments, socket: daemon.path)
        #expect(result.status == 0 && result.error == "")
        #expect(
            result.output == """
                OLD KEY                                       OPENS LATE PAYMENT TOKENS UNTIL
                \(Sample.hash)  2026-02-07T12:00:00Z

                """)
        #expect(try sent() == RotationFinishRequest())
        let now = try await Command.paytokenctl(
            arguments + ["--cut-off", "0s", "--force", "--type", "rsa", "--reason", "tested", "--dry-run"],
            socket: daemon.path)
        #expect(now.error == "Dry run: the old key can be deactivated. Nothing was changed.\n")
        #expect(
            try sent() == RotationFinishRequest(type: "RSA", cutOff: .now, force: true, reason: "tested"))
        _ = try await Command.paytokenctl(arguments + ["--cut-off", "24h"], socket: daemon.path)
        guard case .at(let date) = try sent().cutOff else {
            Issue.record("no cut-off was sent")
            return
        }
        #expect(date > Date(timeIntervalSinceNow: 86_000))
        let refused = try await Command.paytokenctl(["rotate", "finish", "busy"], socket: daemon.path)
        #expect(refused.status == 1 && refused.output == "")
        #expect(
            refused.error
                == "invalid_state: 12 tokens arrived under the old key within the last hour.\nSee: paytokenctl rotate status\n"
        )
    }
}
