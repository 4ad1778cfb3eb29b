import DaemonAPI
import Foundation
import StrictJSON
import TestSupport
import Testing

@testable import paytokenctl

@Suite("Transcripts: states and approvals")
struct LifecycleTranscripts {
    private static let short = String(Sample.hex.prefix(12))
    private static let approval = "0a1b2c3d4e5f6071"
    private static let pending = FakeDaemon.Answer(
        status: 202,
        body: Array(#"{"status":"pending","approval":"\#(approval)","expires":"2100-01-01T00:00:00Z"}"#.utf8))

    private static func summary(
        _ status: String, of operation: String = "key_destroy", decidedBy: String = "null", key: String? = Sample.hash,
        merchant: String? = nil
    ) -> String {
        """
        {"approval":"\(approval)","operation":"\(operation)","status":"\(status)",\
        "publicKeyHash":\(key.map { "\"\($0)\"" } ?? "null"),\
        \(merchant.map { "\"merchantIdentifier\":\"\($0)\"," } ?? "")"keyState":"suspended","reason":"laptop stolen",\
        "requestedBy":"alice","requester":1001,"requestedAt":"2026-01-31T12:00:00Z",\
        "expires":"2100-01-01T00:00:00Z","decidedBy":\(decidedBy),"decidedAt":null}
        """
    }

    @Test(
        "sends each change of state with the reason, and shows the changed key",
        arguments: [
            ("suspend", "suspended"), ("resume", "active"), ("retire", "deactivated"), ("compromise", "compromised"),
            ("destroy", "destroyed"),
        ])
    func changes(verb: String, state: String) async throws {
        let key = Sample.key(merchant: "merchant.com.example", notAfter: nil, daysLeft: nil, state: state)
        let daemon = try await FakeDaemon(["POST /v1/keys/\(Self.short)/state": .ok(key)])
        let result = try await Command.paytokenctl(
            ["key", verb, Self.short, "--reason", "laptop stolen"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.error == "")
        #expect(
            result.output == """
                Merchant       merchant.com.example
                publicKeyHash  \(Sample.hash)
                  in hex       \(Sample.hex)
                Use            processing
                Algorithm      EC
                State          \(state)
                Expires        -
                Days left      -
                Tier           C
                Last use       -
                Uses           7
                Tokens         primary

                """)
        let body = try #require(daemon.asked.last?.body)
        #expect(try JSONValue(parsing: body).objectValue?["to"] == .string(state))
        #expect(try JSONValue(parsing: body).objectValue?["reason"] == .string("laptop stolen"))
        let json = try await Command.paytokenctl(
            ["key", verb, Self.short, "--reason", "r", "--output", "json"], socket: daemon.path)
        #expect(json.output == key + "\n")
    }

    @Test(
        "exits with 75 and prints the second person's command if an approval is required",
        arguments: ["resume", "compromise", "destroy", "adopt"])
    func waits(verb: String) async throws {
        let path = verb == "adopt" ? "adopt" : "state"
        let daemon = try await FakeDaemon(["POST /v1/keys/\(Self.short)/\(path)": Self.pending])
        for format in ["table", "json"] {
            let result = try await Command.paytokenctl(
                ["key", verb, Self.short, "--reason", "r", "--output", format], socket: daemon.path)
            #expect(result.status == 75)
            #expect(result.output == "")
            #expect(
                result.error == """
                    pending: a second person must permit this before 2100-01-01T00:00:00Z: \
                    paytokenctl approval approve \(Self.approval)

                    """)
        }
    }

    @Test("adopts a Google Pay key for the merchant that the command names, and has an approved command repeated")
    func googlePayAdoption() async throws {
        let path = "/v1/keys/\(Self.short)/adopt"
        let adopt = ["key", "adopt", Self.short, "--reason", "r", "--wallet", "google-pay"]
        let merchant = ["--merchant-identifier", "BCR2DN4TEXAMPLE"]
        let waiting = try await FakeDaemon(["POST \(path)": Self.pending])
        let asked = try await Command.paytokenctl(adopt + merchant, socket: waiting.path)
        #expect(asked.status == 75 && asked.output == "", "\(asked)")
        #expect(
            asked.error.hasSuffix(
                "Nothing is adopted yet: once it is approved, repeat the same command with --approval \(Self.approval)\n"
            ))
        let daemon = try await FakeDaemon(["POST \(path)": .ok(Sample.key)])
        let done = try await Command.paytokenctl(
            adopt + merchant + ["--approval", Self.approval], socket: daemon.path)
        #expect(done.status == 0 && done.output.contains(Sample.hash), "\(done)")
        let request = try JSONCoding.decode(KeyAdoptionRequest.self, from: #require(daemon.asked.last).body)
        #expect(request.use == "google-pay" && request.merchantIdentifier == "BCR2DN4TEXAMPLE")
        #expect(request.reason == "r" && request.approval == Self.approval)
        // The certificate of any other key names the merchant.
        for refused in [adopt, Array(adopt.dropLast(2)) + merchant, Array(adopt.dropLast(2)) + ["--approval", "00"]] {
            let result = try await Command.paytokenctl(refused, socket: daemon.path)
            #expect(result.status == 64 && result.error.contains("--merchant-identifier"), "\(result)")
        }
        #expect(daemon.asked.count == 1)
    }

    @Test(
        "says whether the key is suspended after a request to mark it as compromised",
        arguments: ["suspended", "pre-activation"]
    )
    func compromiseWaits(state: String) async throws {
        let pending = FakeDaemon.Answer(
            status: 202,
            body: Array(
                #"{"status":"pending","approval":"\#(Self.approval)","expires":"2100-01-01T00:00:00Z","#.utf8)
                + Array(#""keyState":"\#(state)"}"#.utf8))
        let daemon = try await FakeDaemon(["POST /v1/keys/\(Self.short)/state": pending])
        let result = try await Command.paytokenctl(
            ["key", "compromise", Self.short, "--reason", "r"], socket: daemon.path)
        #expect(result.status == 75 && result.output == "")
        let first = """
            pending: a second person must permit this before 2100-01-01T00:00:00Z: \
            paytokenctl approval approve \(Self.approval)

            """
        #expect(result.error == first + (state == "suspended" ? "The key is suspended now.\n" : ""))
        // Requests for other states do not mention a suspension.
        let destroyed = try await Command.paytokenctl(
            ["key", "destroy", Self.short, "--reason", "r"], socket: daemon.path)
        #expect(destroyed.error == first)
    }

    @Test("sends dry_run in the query for --dry-run, and shows the daemon's note")
    func dryRun() async throws {
        let key = Sample.key.replacingOccurrences(
            of: #""remark":null"#, with: #""remark":"A dry run: nothing has been changed.""#)
        let daemon = try await FakeDaemon(["POST /v1/keys/\(Self.short)/state?dry_run=true": .ok(key)])
        let result = try await Command.paytokenctl(
            ["key", "suspend", Self.short, "--reason", "r", "--dry-run"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output.hasSuffix("Remark         A dry run: nothing has been changed.\n"), "\(result)")
    }

    private static let proof = """
        {"publicKeyHash":"\(Sample.hash)","merchantIdentifier":"merchant.com.example","certificateSha256":null,\
        "proved":true,"items":[{"token":"primary","proved":true,"tier":"C","code":null,"message":null,\
        "audit":{"node":"node-1","sequence":42}}],"withoutKey":[]}
        """

    @Test("shows the proofs of a key, names the HSM tokens without it, and fails if one does not prove it")
    func proofs() async throws {
        let failed =
            #""proved":false,"items":[{"token":"second","proved":false,"tier":null,"code":"hsm_unavailable","#
            + #""message":"The HSM token is away."},"#
        for (answer, status, output, error) in [
            (Self.proof, 0, "primary  yes     C     node-1 42\n", ""),
            (
                Self.proof.replacing(#""withoutKey":[]"#, with: #""withoutKey":["second","third"]"#), 0,
                "primary  yes     C     node-1 42\n", "The key is not in: second, third.\n"
            ),
            (
                Self.proof.replacing(#""proved":true,"items":["#, with: failed), 1,
                "second   no      -     -          hsm_unavailable: The HSM token is away.\n",
                "The key is not proved in every HSM token that needs it.\n"
            ),
        ] {
            let daemon = try await FakeDaemon(["POST /v1/keys/\(Self.short)/proofs": .ok(answer)])
            let result = try await Command.paytokenctl(["key", "prove", Self.short], socket: daemon.path)
            #expect(result.status == Int32(status) && result.error == error, "\(result)")
            #expect(
                result.output.hasPrefix("TOKEN    PROVED  TIER  RECORD") && result.output.contains(output), "\(result)")
            let bytes = try await Command.paytokenctl(
                ["key", "prove", Self.short, "--output", "json"], socket: daemon.path)
            #expect(bytes.output == answer + "\n", "\(bytes)")
        }
    }

    @Test("accepts a cut-off of retire as a duration from now")
    func cutOff() async throws {
        let daemon = try await FakeDaemon(["POST /v1/keys/\(Self.short)/state": .ok(Sample.key)])
        let before = Date()
        let result = try await Command.paytokenctl(
            ["key", "retire", Self.short, "--cut-off", "24h", "--reason", "rotated"], socket: daemon.path)
        #expect(result.status == 0, "\(result)")
        let request = try KeyStateRequest(parsing: #require(daemon.asked.last?.body))
        let cutOff = try #require(request.cutOff)
        // The request contains times in whole seconds.
        #expect(cutOff.timeIntervalSince(before) > 86_398 && cutOff.timeIntervalSinceNow < 86_401)
    }

    @Test(
        "prints a refusal's code, message and remedies, and exits with 77 for a missing role and otherwise with 1"
    )
    func refused() async throws {
        let answers: [(FakeDaemon.Answer, Int32, String)] = [
            (
                .refusal(
                    409, "invalid_state", "A key that is active cannot become destroyed.",
                    details: "from active it can become suspended, deactivated, compromised"), 1,
                "invalid_state: A key that is active cannot become destroyed. "
                    + "(from active it can become suspended, deactivated, compromised)\n"
                    + "See: paytokenctl key show, paytokenctl help key\n"
            ),
            (
                .refusal(409, "invalid_state", "Not so.", details: "POST /v1/rotations/added"), 1,
                "invalid_state: Not so. (POST /v1/rotations/added)\nSee: paytokenctl help rotate added\n"
            ),
            (
                .refusal(422, "key_not_found", "There is no such key here."), 1,
                "key_not_found: There is no such key here.\nSee: paytokenctl key list\n"
            ),
            (.refusal(403, "forbidden", "Not your role."), 77, "forbidden: Not your role.\n"),
            (
                .refusal(503, "ledger_unavailable", "The disk is full."), 75,
                "ledger_unavailable: The disk is full.\nSee: paytokenctl status\n"
            ),
        ]
        for (answer, status, message) in answers {
            let daemon = try await FakeDaemon(["POST /v1/keys/\(Self.short)/state": answer])
            let result = try await Command.paytokenctl(
                ["key", "destroy", Self.short, "--reason", "r"], socket: daemon.path)
            #expect(result.status == status)
            #expect(result.output == "")
            #expect(result.error == message)
        }
    }

    @Test("sends no request without a reason or with one that is too long")
    func reasons() async throws {
        let daemon = try await FakeDaemon([:])
        for verb in ["suspend", "resume", "retire", "compromise", "destroy", "adopt"] {
            let cases =
                [["key", verb, Self.short], ["key", verb, "--reason", "r"]]
                + ["", String(repeating: "r", count: 201)].map { ["key", verb, Self.short, "--reason", $0] }
            for arguments in cases {
                let result = try await Command.paytokenctl(arguments, socket: daemon.path)
                #expect(result.status == 64, "\(arguments)")
            }
        }
        #expect(daemon.asked == [])
    }

    @Test("permits a decision without a reason, but refuses a reason that is empty or too long", arguments: [0, 201])
    func decisionReasons(length: Int) async throws {
        let daemon = try await FakeDaemon([:])
        let reason = String(repeating: "r", count: length)
        for verb in ["approve", "reject", "withdraw"] {
            let result = try await Command.paytokenctl(
                ["approval", verb, Self.approval, "--reason", reason], socket: daemon.path)
            #expect(result.status == 64 && result.error.contains("--reason has 1 to 200 characters."), "\(result)")
        }
        #expect(daemon.asked == [])
    }

    @Test("aligns the pending and past approvals in approval list, and says if there are none")
    func list() async throws {
        let restore = Self.summary("rejected", decidedBy: "1002", key: nil)
        let daemon = try await FakeDaemon([
            "GET /v1/approvals": .ok(
                #"{"items":[\#(Self.summary("pending", merchant: "merchant.com.example")),\#(restore)]}"#)
        ])
        let result = try await Command.paytokenctl(["approval", "list"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(
            result.output == """
                APPROVAL          OPERATION    STATUS    KEY       MERCHANT              REQUESTED BY  EXPIRES               REASON
                \(Self.approval)  key_destroy  pending   00010203  merchant.com.example  alice (1001)  2100-01-01T00:00:00Z  laptop stolen
                \(Self.approval)  key_destroy  rejected  -         -                     alice (1001)  2100-01-01T00:00:00Z  laptop stolen

                """)
        let became = Self.summary("pending").replacing(
            #""requester":1001,"#, with: #""requester":1001,"requesterLoginUid":5555,"#)
        let other = try await FakeDaemon(["GET /v1/approvals": .ok(#"{"items":[\#(became)]}"#)])
        let shown = try await Command.paytokenctl(["approval", "list"], socket: other.path)
        #expect(shown.output.contains("  alice (1001, login 5555)  "), "\(shown)")
        let quiet = try await FakeDaemon(["GET /v1/approvals": .ok(#"{"items":[]}"#)])
        let none = try await Command.paytokenctl(["approval", "list"], socket: quiet.path)
        #expect(none.status == 0 && none.output == "")
        #expect(none.error == "Nothing waits for a second person.\n")
    }

    @Test(
        "prints the result of a decision on an approval",
        arguments: [("approve", "done"), ("reject", "rejected"), ("withdraw", "withdrawn")])
    func decisions(verb: String, status: String) async throws {
        let key =
            status == "done" ? Sample.key(merchant: "m", notAfter: nil, daysLeft: nil, state: "destroyed") : "null"
        let answer = #"{"approval":\#(Self.summary(status, decidedBy: "1002")),"key":\#(key)}"#
        let daemon = try await FakeDaemon(["POST /v1/approvals/\(Self.approval)": .ok(answer)])
        let result = try await Command.paytokenctl(
            ["approval", verb, Self.approval, "--reason", "seen"], socket: daemon.path)
        #expect(result.status == 0)
        let done = """
            Approval     \(Self.approval)
            Operation    key_destroy
            Status       done
            Key          \(Sample.hash)
            Key's state  destroyed

            """
        let undone = """
            Approval          \(Self.approval)
            Operation         key_destroy
            Status            \(status)
            Key               \(Sample.hash)
            State when asked  suspended

            """
        #expect(result.output == (status == "done" ? done : undone))
        let body = try #require(daemon.asked.last?.body)
        #expect(try JSONValue(parsing: body).objectValue?["decision"] == .string(verb))
        #expect(try JSONValue(parsing: body).objectValue?["reason"] == .string("seen"))
        let json = try await Command.paytokenctl(
            ["approval", verb, Self.approval, "--output", "json"], socket: daemon.path)
        #expect(json.output == answer + "\n")
    }

    @Test(
        "prints which command the requester repeats after the approval of an import or of a change at Apple",
        arguments: [
            ("key_import", "key import"), ("certificate_create", "rotate renew"),
            ("certificate_activate", "rotate renew"), ("certificate_revoke", "rotate renew"),
        ])
    func waitsForRequester(operation: String, command: String) async throws {
        let approval = Self.summary("approved", of: operation, decidedBy: "1002")
        let daemon = try await FakeDaemon([
            "POST /v1/approvals/\(Self.approval)": .ok(#"{"approval":\#(approval)}"#)
        ])
        let result = try await Command.paytokenctl(["approval", "approve", Self.approval], socket: daemon.path)
        #expect(result.status == 0)
        let last =
            "Next              alice repeats the same \(command) with --approval \(Self.approval), on the host where they asked\n"
        #expect(result.output.hasSuffix(last), "\(result)")
    }

    @Test("prints the daemon's refusal of a decision, and exits with 64 for an invalid approval name")
    func noDecision() async throws {
        let sentence = "The person who requested an operation cannot approve it; a second person must."
        let daemon = try await FakeDaemon([
            "POST /v1/approvals/\(Self.approval)": .refusal(409, "approval_invalid", sentence)
        ])
        let result = try await Command.paytokenctl(["approval", "approve", Self.approval], socket: daemon.path)
        #expect(result.status == 1)
        #expect(result.error == "approval_invalid: \(sentence)\nSee: paytokenctl approval list\n")
        for name in ["", "xyz", "0A1B2C3D4E5F6071", "../keys"] {
            #expect(try await Command.paytokenctl(["approval", "approve", name], socket: daemon.path).status == 64)
        }
        #expect(daemon.asked.count == 1)
    }
}
