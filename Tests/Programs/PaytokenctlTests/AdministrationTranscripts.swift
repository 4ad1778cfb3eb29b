import CommandOutput
import DaemonAPI
import Foundation
import StrictJSON
import TestSupport
import Testing

@testable import paytokenctl

@Suite("Transcripts: keys and status")
struct AdministrationTranscripts {
    @Test("collects all pages of keys in key list, and aligns the columns")
    func list() async throws {
        let short = Sample.key(merchant: "m", notAfter: nil, daysLeft: nil, state: "pre-activation")
        let daemon = try await FakeDaemon([
            "GET /v1/keys?limit=1000": .ok(#"{"items":[\#(Sample.key)],"next":"a/b"}"#),
            "GET /v1/keys?limit=1000&after=a%2Fb": .ok(#"{"items":[\#(short)]}"#),
        ])
        let result = try await Command.paytokenctl(["key", "list"], socket: daemon.path)
        #expect(result.status == 0)
        let hash = Sample.hash
        #expect(
            result.output == """
                MERCHANT              PUBLICKEYHASH                                 USE         TYPE  STATE           EXPIRES     DAYS   TIER  LAST USE  USES
                merchant.com.example  \(hash)  processing  EC    active          2100-01-01  26000  C     -         7
                m                     \(hash)  processing  EC    pre-activation  -           -      C     -         7

                """)
        let json = try await Command.paytokenctl(["key", "list", "--output", "json"], socket: daemon.path)
        #expect(json.output == "[\(Sample.key),\(short)]\n")
    }

    @Test("exits with 1 from key list --expiring if a certificate expires, and otherwise with 0")
    func expiring() async throws {
        let soon = Sample.key(merchant: "soon", notAfter: "2020-01-01T00:00:00Z", daysLeft: -2000)
        let daemon = try await FakeDaemon(["GET /v1/keys?limit=1000": .ok(#"{"items":[\#(Sample.key),\#(soon)]}"#)])
        let some = try await Command.paytokenctl(
            ["key", "list", "--expiring", "60d", "--output", "json"], socket: daemon.path)
        #expect(some.status == 1)
        #expect(some.output == "[\(soon)]\n")
        let quiet = try await FakeDaemon(["GET /v1/keys?limit=1000": .ok(#"{"items":[\#(Sample.key)]}"#)])
        let none = try await Command.paytokenctl(["key", "list", "--expiring", "60d"], socket: quiet.path)
        #expect(none.status == 0)
        #expect(none.output == "")
        #expect(none.error == "No certificate expires and no Google Pay key is a year old within that time.\n")
    }

    @Test("orders key list by expiry, with destroyed keys and keys without a certificate last")
    func order() async throws {
        let keys = [
            Sample.key(merchant: "none", notAfter: nil, daysLeft: nil, state: "pre-activation"),
            Sample.key(merchant: "late", notAfter: "2101-01-01T00:00:00Z", daysLeft: 27000),
            Sample.key(merchant: "gone", notAfter: "2019-01-01T00:00:00Z", daysLeft: -2500, state: "destroyed"),
            Sample.key(merchant: "over", notAfter: "2020-01-01T00:00:00Z", daysLeft: -2000),
            Sample.key(merchant: "soon", notAfter: "2100-01-01T00:00:00Z", daysLeft: 26000),
            Sample.key(merchant: "same", notAfter: "2100-01-01T00:00:00Z", daysLeft: 26000),
        ]
        let daemon = try await FakeDaemon([
            "GET /v1/keys?limit=1000": .ok(#"{"items":[\#(keys.joined(separator: ","))]}"#)
        ])
        let table = try await Command.paytokenctl(["key", "list"], socket: daemon.path)
        let merchants = table.output.split(separator: "\n").dropFirst().compactMap { $0.split(separator: " ").first }
        #expect(merchants == ["over", "same", "soon", "late", "gone", "none"])
        // The note refers to the active key with an expired certificate, not to the destroyed key.
        #expect(table.error.hasPrefix("An expired certificate stops nothing here"), "\(table)")
        let json = try await Command.paytokenctl(["key", "list", "--output", "json"], socket: daemon.path)
        let order = [3, 5, 4, 1, 2, 0].map { keys[$0] }.joined(separator: ",")
        #expect(json.output == "[\(order)]\n")
    }

    @Test("omits keys that need no new certificate in key list --expiring")
    func needsNone() async throws {
        let keys = ["deactivated", "compromised", "destroyed"].map {
            Sample.key(merchant: "m", notAfter: "2020-01-01T00:00:00Z", daysLeft: -2000, state: $0)
        }
        let daemon = try await FakeDaemon([
            "GET /v1/keys?limit=1000": .ok(#"{"items":[\#(keys.joined(separator: ","))]}"#)
        ])
        let result = try await Command.paytokenctl(["key", "list", "--expiring", "60d"], socket: daemon.path)
        #expect(result.status == 0, "\(result)")
        // A suspended key may be resumed, so it needs a new certificate.
        let suspended = Sample.key(merchant: "m", notAfter: "2020-01-01T00:00:00Z", daysLeft: -2000, state: "suspended")
        let other = try await FakeDaemon(["GET /v1/keys?limit=1000": .ok(#"{"items":[\#(suspended)]}"#)])
        #expect(try await Command.paytokenctl(["key", "list", "--expiring", "60d"], socket: other.path).status == 1)
    }

    @Test("accepts a hash in base64 or a hexadecimal prefix in key show")
    func show() async throws {
        let daemon = try await FakeDaemon([
            "GET /v1/keys/\(Sample.hex)": .ok(Sample.key), "GET /v1/keys/00010203": .ok(Sample.key),
        ])
        let result = try await Command.paytokenctl(["key", "show", Sample.hash], socket: daemon.path)
        #expect(
            result.output == """
                Merchant       merchant.com.example
                publicKeyHash  \(Sample.hash)
                  in hex       \(Sample.hex)
                Use            processing
                Algorithm      EC
                State          active
                Expires        2100-01-01T00:00:00Z
                Days left      26000
                Tier           C
                Last use       -
                Uses           7
                Tokens         primary

                """)
        let json = try await Command.paytokenctl(
            ["key", "show", "00010203", "--output", "json"], socket: daemon.path)
        #expect(json.output == Sample.key + "\n")
    }

    @Test("shows the current attributes of the private key in each HSM token, with their shortcomings")
    func attributes() async throws {
        let made =
            #"{"alwaysSensitive":true,"extractable":true,"local":true,"modifiable":true,"neverExtractable":null,"#
            + #""private":true,"sensitive":true,"shortcomings":["CKA_EXTRACTABLE is true."],"strength":"P-256","#
            + #""token":"primary","uses":["derive"]}"#
        let away = #"{"away":true,"message":"It is not open.","token":"second"}"#
        let gone =
            #"{"alwaysSensitive":null,"extractable":null,"local":null,"modifiable":null,"neverExtractable":null,"#
            + #""private":null,"sensitive":null,"shortcomings":["Not there."],"strength":null,"token":"third","uses":[]}"#
        let key = Sample.key.dropLast() + ",\"attributes\":[\(made),\(away),\(gone)]}"
        let daemon = try await FakeDaemon(["GET /v1/keys/00010203": .ok(String(key))])
        let result = try await Command.paytokenctl(["key", "show", "00010203"], socket: daemon.path)
        #expect(
            result.output.hasSuffix(
                """
                Tokens         primary
                In primary     P-256, permits derive, made in the HSM token
                  sensitive    yes, always: yes
                  extractable  yes, never: unknown
                  private      yes
                  modifiable   yes
                  shortcoming  CKA_EXTRACTABLE is true.
                In second      unavailable: It is not open.
                In third       Not there.

                """), "\(result)")
    }

    @Test("notes in key list and key show for an expired certificate only that it stops nothing here")
    func ended() async throws {
        func key(_ notAfter: String, _ state: String) -> String {
            Sample.key(merchant: "m", notAfter: notAfter, daysLeft: 0, state: state)
        }
        for (key, isSaid) in [
            (key("2020-01-01T00:00:00Z", "active"), true), (key("2100-01-01T00:00:00Z", "active"), false),
            (key("2020-01-01T00:00:00Z", "deactivated"), false),
        ] {
            let daemon = try await FakeDaemon([
                "GET /v1/keys?limit=1000": .ok(#"{"items":[\#(key)]}"#), "GET /v1/keys/00010203": .ok(key),
            ])
            let list = try await Command.paytokenctl(["key", "list"], socket: daemon.path)
            #expect(list.status == 0 && list.error.contains("Apple encrypts no new ones to it") == isSaid, "\(list)")
            let shown = try await Command.paytokenctl(["key", "show", "00010203"], socket: daemon.path)
            #expect(shown.output.contains("Apple encrypts no new ones to it") == isSaid, "\(shown)")
        }
    }

    @Test("prints the daemon's refusal of an unknown key")
    func absent() async throws {
        let daemon = try await FakeDaemon([
            "GET /v1/keys/ffffffff": .refusal(422, "key_not_found", "No key here begins so.")
        ])
        let result = try await Command.paytokenctl(["key", "show", "FFFFFFFF"], socket: daemon.path)
        #expect(result.status == 1)
        #expect(result.error == "key_not_found: No key here begins so.\nSee: paytokenctl key list\n")
    }

    @Test("exits with 0 from status if the daemon is ready, and prints warnings on standard error")
    func ready() async throws {
        let daemon = try await FakeDaemon(["GET /v1/status": .ok(Sample.status())])
        let result = try await Command.paytokenctl(["status"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(
            result.output == """
                Ready       yes
                Version     0.1.0
                Node        backend-1
                Started     2026-01-31T12:00:00Z
                Ledger      sqlite, writable
                Roots       -
                Distrusted  0
                Window      5m

                TOKEN    CONDITION  LABEL      SERIAL  MODEL       FIRMWARE  SESSIONS  EC_v1  RSA_v1  TLS         KEYS
                primary  ready      paytokend  1a2b    SoftHSM v2  2.6       2         C      C       PSS*,PKCS1  2

                """)
        #expect(result.error == "warning: One person approves alone.\n")
    }

    @Test("shows the beginning of each program's SHA-256 in status")
    func programs() async throws {
        let digests = (1...4).map { String(repeating: "\($0)", count: 64) }
        let status = Sample.status()
            .replacing(
                #""ready":true"#,
                with:
                    #""programs":{"paytokendSha256":"\#(digests[0])","workerSha256":"\#(digests[1])","sbomSha256":"\#(digests[2])"},"ready":true"#
            )
            .replacing(#""name":"primary""#, with: #""name":"primary","moduleSha256":"\#(digests[3])""#)
        let daemon = try await FakeDaemon(["GET /v1/status": .ok(status)])
        let result = try await Command.paytokenctl(["status", "--wide"], socket: daemon.path)
        #expect(
            result.output.contains(
                "SHA-256     paytokend 111111111111…, paytokend-hsm 222222222222…, SBOM 333333333333…, library of primary 444444444444…\n"
            ), "\(result)")
    }

    // Without a limit, the line of the HSM tokens has 102 columns.
    @Test("fits status to the terminal's width, says what it omits, and shows everything with --wide")
    func fitted() async throws {
        let daemon = try await FakeDaemon(["GET /v1/status": .ok(Sample.status())])
        let full = try await Command.paytokenctl(["status"], socket: daemon.path)
        for columns in [80, 60] {
            let fitted = try await Command.inTerminal(columns: columns, ["status"], socket: daemon.path)
            #expect(fitted.status == 0)
            #expect(fitted.output.split(separator: "\n").allSatisfy { $0.count <= columns }, "\(fitted)")
            #expect(fitted.error.contains("Left out because the terminal is narrow: "), "\(fitted)")
        }
        let wide = try await Command.inTerminal(columns: 60, ["status", "--wide"], socket: daemon.path)
        #expect(wide.output == full.output && wide.error == full.error)
    }

    @Test("shows the audit record's extent, seal and archive in status")
    func record() async throws {
        let parts: [(String, String)] = [
            (#""lastSequence":0,"#, "to 0, not sealed"),
            (
                #""lastSequence":90,"sealedSequence":80,"sealedAt":"2026-01-31T12:00:00Z","#,
                "to 90, sealed to 80 at 2026-01-31T12:00:00Z"
            ),
            (
                #""lastSequence":90,"sealedSequence":80,"archivedSequence":41,"#,
                "to 90, sealed to 80, archived to 41"
            ),
        ]
        for (members, text) in parts {
            let status = Sample.status().replacing(#""ledger":{"#, with: #""ledger":{"# + members)
            let daemon = try await FakeDaemon(["GET /v1/status": .ok(status)])
            let result = try await Command.paytokenctl(["status"], socket: daemon.path)
            #expect(result.output.contains("\nRecord      \(text)\n"), "\(result)")
        }
    }

    @Test("exits with 1 from status if the daemon is not ready, and prints the reasons")
    func notReady() async throws {
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(
                Sample.status(ready: false, condition: "unavailable", message: "The token is absent."))
        ])
        let result = try await Command.paytokenctl(["status", "--output", "json"], socket: daemon.path)
        #expect(result.status == 1)
        #expect(result.error == "hsm_unavailable: token/primary: The token is absent.\n")
        #expect(try JSONValue(parsing: result.output).objectValue?["ready"] == .bool(false))
    }

    @Test("prints each reason on its own line, even if a reason contains line breaks")
    func severalReasons() async throws {
        let two = Sample.status(ready: false).replacing(
            #""reasons":["#,
            with: #""reasons":[{"component":"ledger","code":"ledger_unavailable","message":"Full.\nready: yes"},"#)
        let daemon = try await FakeDaemon(["GET /v1/status": .ok(two)])
        let result = try await Command.paytokenctl(["status", "--output", "json"], socket: daemon.path)
        #expect(result.status == 1)
        #expect(
            result.error == #"""
                ledger_unavailable: ledger: Full.\u{a}ready: yes
                hsm_unavailable: token/primary: The token is absent.

                """#)
    }

    @Test("shows a deactivated key's cut-off, and explains a cut-off in the future")
    func cutOff() async throws {
        let hash = Sample.hash
        func key(_ cutOff: String) -> String {
            Sample.key(merchant: "m", notAfter: nil, daysLeft: nil, state: "deactivated")
                .replacing(#""condition""#, with: #""cutOff":"\#(cutOff)","condition""#)
        }
        let daemon = try await FakeDaemon([
            "GET /v1/keys/00010203": .ok(key("2100-01-01T12:00:00Z")),
            "GET /v1/keys/00010204": .ok(key("2020-01-01T12:00:00Z")),
            "GET /v1/keys?limit=1000": .ok(#"{"items":[\#(key("2100-01-01T12:00:00Z"))]}"#),
        ])
        let ahead = try await Command.paytokenctl(["key", "show", "00010203"], socket: daemon.path)
        #expect(
            ahead.output.contains(
                """
                State          deactivated, opens late payment tokens until 2100-01-01
                Cut-off        2100-01-01T12:00:00Z

                """), "\(ahead)")
        let past = try await Command.paytokenctl(["key", "show", "00010204"], socket: daemon.path)
        #expect(
            past.output.contains("State          deactivated\nCut-off        2020-01-01T12:00:00Z\n"), "\(past)")
        let list = try await Command.paytokenctl(["key", "list"], socket: daemon.path)
        #expect(list.output.contains("\(hash)  processing  EC    deactivated, until 2100-01-01  -"), "\(list)")
    }

    @Test("says how long a key's name must be if it is too short")
    func tooShort() async throws {
        for arguments in [
            ["key", "show", "f516"], ["csr", "create", "f516"], ["key", "suspend", "f516", "--reason", "r"],
        ] {
            let result = try await Command.paytokenctl(arguments)
            #expect(result.status == 64)
            #expect(result.error.contains("The value 'f516' is invalid for '<key>': "), "\(result)")
            #expect(result.error.contains("at least 8 characters"), "\(result)")
        }
    }

    @Test("reads the path of each socket from the environment variable for it")
    func environment() async throws {
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(Sample.status()), "POST /v1/verify": .ok(Sample.verified),
        ])
        let admin = try await Command.paytokenctl(
            ["status"], environment: ["PAYTOKEND_ADMIN_SOCKET": daemon.path, "PAYTOKEND_SOCKET": "/nowhere"])
        #expect(admin.status == 0)
        let payments = try await Command.paytokenctl(
            ["verify", "-"], environment: ["PAYTOKEND_ADMIN_SOCKET": "/nowhere", "PAYTOKEND_SOCKET": daemon.path],
            input: "{}")
        #expect(payments.status == 0)
    }

    @Test("exits with 69 and says what to do if the daemon cannot be reached")
    func unreachable() async throws {
        let directory = try FreshDirectory()
        let absent = try await Command.paytokenctl(["status"], socket: directory.path("none"))
        #expect(absent.status == 69)
        #expect(absent.error.contains("There is no socket at \(directory.path("none")). Is paytokend running"))
        let file = try await Command.paytokenctl(["status"], socket: directory.write("", to: "file"))
        #expect(file.status == 69)
        let other = try await FakeDaemon(["GET /v1/status": .ok("<html>")])
        let foreign = try await Command.paytokenctl(["status"], socket: other.path)
        #expect(foreign.status == 69)
        #expect(foreign.error.contains("(HTTP 200) is not one that this program understands"))
    }

    /// Runs the built program as user nobody, who may have no access to the directories above it.
    private static func asNobody(_ arguments: [String]) async throws -> ProgramResult {
        try await Program.run(
            Program.installed("setpriv"),
            ["--reuid=65534", "--regid=65534", "--clear-groups", Program.built("paytokenctl")] + arguments)
    }

    @Test(
        "exits with 77 if the user may not open the socket",
        .enabled("run it as root, with programs that every account can reach") {
            guard getuid() == 0 else { return false }
            return try await asNobody(["--version"]).status == 0
        })
    func notPermitted() async throws {
        let daemon = try await FakeDaemon(["GET /v1/status": .ok(Sample.status())])
        let result = try await Self.asNobody(["status", "--socket", daemon.path])
        #expect(result.status == 77)
        #expect(result.error.contains("No permission to connect to \(daemon.path)"))
    }

    @Test("maps each connection failure to an exit status")
    func connectionFailures() {
        #expect(CommandFailure(UnixSocketClientError.notPermitted(path: "p"), of: "paytokend").status == .notPermitted)
        #expect(CommandFailure(UnixSocketClientError.notThere(path: "p"), of: "paytokend").status == .unreachable)
        #expect(CommandFailure(UnixSocketClientError.cutShort(path: "p"), of: "paytokend").status == .unreachable)
    }

    @Test("exits with 64 for wrong usage, and with 0 for help and version")
    func usage() async throws {
        for arguments in [["unknown"], ["key", "show"], ["key", "show", "x"], ["status", "--colour"]] {
            let result = try await Command.paytokenctl(arguments)
            #expect(result.status == 64, "\(arguments)")
            #expect(result.output == "")
            #expect(result.error.contains("Usage:") || result.error.contains("See"), "\(result.error)")
        }
        let version = try await Command.paytokenctl(["--version"])
        #expect(version.status == 0)
        #expect(version.output.hasPrefix("paytokenctl "))
        let help = try await Command.paytokenctl(["help", "key", "import"])
        #expect(help.status == 0)
        #expect(help.output.contains("paytokenctl key import --private-key key.pem"))
        let completion = try await Command.paytokenctl(["--generate-completion-script", "bash"])
        #expect(completion.status == 0)
        #expect(completion.output.contains("certificate"))
    }
}
