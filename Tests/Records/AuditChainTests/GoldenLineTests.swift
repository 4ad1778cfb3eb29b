import AuditChain
import TestSupport
import Testing

/// Expected bytes, written by hand from the public contract.
///
/// The hashes were computed outside this package, for example by
/// `(head -c 32 /dev/zero; printf '%s' '{"node":…,"reference":"…"') | openssl dgst -sha256`.
/// The signature comes from `openssl dgst -sha256 -sign`.
@Suite("Lines of the audit record, byte for byte")
struct GoldenLineTests {
    static let first = #"""
        {"node":"backend-1","sequence":1,"time":"2026-01-31T12:00:00.000Z","event":"decrypt","outcome":"ok",\#
        "caller":{"name":"checkout","uid":1001,"gid":1002,"loginUid":1003,"pid":4242,"comm":"shop"},\#
        "merchant":"merchant.com.example","publicKeyHash":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",\#
        "transactionId":"202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f","protection":"A",\#
        "token":"primary","reference":"71983129e5088fcbbb2be5a2e186253aa3ee915c173f42553285baf7100b0059",\#
        "hash":"53bf482974a72fefa363d4ef2531895c2dc5df8bb6e30aa08e7b9bb25bed8e6b"}
        """#
    static let second = #"""
        {"node":"backend-1","sequence":2,"time":"2026-01-31T12:00:00.007Z","event":"key_state_change",\#
        "outcome":"ok","caller":{"name":"ops","uid":0,"gid":0},"merchant":"merchant.com.example",\#
        "publicKeyHash":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","from":"active","to":"suspended",\#
        "reason":"a \"leak\" in café\\bar",\#
        "hash":"694e7d33ba134dd7462c2ad26a287ffc5bed8b872066702a314418310445f7a7"}
        """#
    static let traced = #"""
        {"node":"backend-1","sequence":1,"time":"2026-01-31T12:00:00.000Z","event":"decrypt",\#
        "outcome":"amount_mismatch","caller":{"name":"checkout","uid":1001},\#
        "reference":"71983129e5088fcbbb2be5a2e186253aa3ee915c173f42553285baf7100b0059",\#
        "traceId":"4bf92f3577b34da6a3ce929d0e0e4736","parentId":"00f067aa0ba902b7",\#
        "hash":"3798e067a6e851bffa30e4b811422be255bbb959cb806fd48aff20c6d1f45037"}
        """#
    static let unreached = #"""
        {"node":"backend-1","sequence":1,"time":"2026-01-31T12:00:00.000Z","event":"decrypt",\#
        "outcome":"hsm_unavailable","caller":{"name":"checkout","uid":1001},\#
        "reference":"71983129e5088fcbbb2be5a2e186253aa3ee915c173f42553285baf7100b0059","hsm":"not_reached",\#
        "traceId":"4bf92f3577b34da6a3ce929d0e0e4736","parentId":"00f067aa0ba902b7",\#
        "hash":"c2afaf8c062552219157129045beda96d19a9a2af7d079b3d5fa461a218975e3"}
        """#
    static let googlePay = #"""
        {"node":"backend-1","sequence":1,"time":"2026-01-31T12:00:00.000Z","event":"decrypt","outcome":"ok",\#
        "caller":{"name":"checkout","uid":1001},"merchant":"12345678901234567890",\#
        "publicKeyHash":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",\#
        "transactionId":"202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f","protection":"B",\#
        "token":"primary","wallet":"google-pay",\#
        "reference":"71983129e5088fcbbb2be5a2e186253aa3ee915c173f42553285baf7100b0059","amount":"10.99",\#
        "currency":"EUR","authMethod":"CRYPTOGRAM_3DS",\#
        "triedKeys":["QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=",\#
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="],\#
        "hash":"bad81cdc8f9a2febd054dd48509d2b963a34c6672e9c7f14bc4db875e9c431e8"}
        """#
    static let checkpoint = #"""
        {"checkpoint":{"node":"backend-1","sequence":2,\#
        "hash":"694e7d33ba134dd7462c2ad26a287ffc5bed8b872066702a314418310445f7a7","time":"2026-01-31T12:01:00.000Z",\#
        "keyId":"647ceea4b4f9167888a8b058761969af0fc8f71df17c1d3e91ec1506d518d09c"},\#
        "signature":"MEUCIQCEnn3cCFt4PgqpGGS09eFl6cH4DuEkbpy9B0Hq81YjzAIgCf/gq2Nm73WVxYeTVFJh+zRYM7LGRr/9Dfl\#
        k0wnyLoI="}
        """#
    static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0Xwyi992tGz6ewS7cVXuHUwdVn5P
        nJx959B5H2lEyGvHB9Hhw7uw7cMzDrlzFa0tZRCpGOXFoZMBLJFQcrVnAw==
        -----END PUBLIC KEY-----

        """

    /// The records whose lines are expected above.
    static func records() throws -> [AuditRecord] {
        let key = try required(AuditDigest(bytes: Array(0..<32)))
        return [
            AuditRecord(
                time: try required(AuditTime(rfc3339: "2026-01-31T12:00:00Z")),
                event: .decrypt(reference: .of(Array("order-1234".utf8))),
                caller: AuditCaller(
                    name: AuditText("checkout"), uid: 1001, gid: 1002, loginUID: 1003, pid: 4242,
                    comm: AuditText("shop")),
                merchant: AuditText("merchant.com.example"), publicKeyHash: key,
                transactionId: AuditDigest(bytes: Array(32..<64)), protection: .a, hsmToken: AuditText("primary")),
            AuditRecord(
                time: try required(AuditTime(rfc3339: "2026-01-31T12:00:00.007Z")),
                event: .keyStateChange(
                    KeyStateChange(
                        from: .active, to: .suspended, reason: AuditReason("a \"leak\" in café\\bar"))),
                caller: AuditCaller(name: AuditText("ops"), uid: 0, gid: 0),
                merchant: AuditText("merchant.com.example"), publicKeyHash: key),
        ]
    }

    @Test("writes the first two lines of a chain exactly as in the contract, with hashes computed outside this package")
    func lines() throws {
        var head = ChainHead(node: try required(AuditNode("backend-1")))
        let lines = try Self.records().map { head.append($0) }
        #expect(String(decoding: lines[0].bytes, as: UTF8.self) == Self.first)
        #expect(String(decoding: lines[1].bytes, as: UTF8.self) == Self.second)
        #expect(lines[1].hash.hex == "694e7d33ba134dd7462c2ad26a287ffc5bed8b872066702a314418310445f7a7")
        #expect(head.sequence == 2)
        #expect(head.hash == lines[1].hash)
    }

    @Test("writes wallet, statements, kind of number and tried keys of a Google Pay message, and reads them")
    func googlePayLine() throws {
        var message = GooglePayDecryption(
            reference: .of(Array("order-1234".utf8)), amount: AuditText("10.99"), currency: AuditText("EUR"))
        message.authMethod = AuditText("CRYPTOGRAM_3DS")
        let key = try required(AuditDigest(bytes: Array(0..<32)))
        message.triedKeys = [try required(AuditDigest(bytes: Array(64..<96))), key]
        let record = AuditRecord(
            time: try required(AuditTime(rfc3339: "2026-01-31T12:00:00Z")), event: .decryptGooglePay(message),
            caller: AuditCaller(name: AuditText("checkout"), uid: 1001, gid: nil),
            merchant: AuditText(merchantAtGoogle: "12345678901234567890"), publicKeyHash: key,
            transactionId: AuditDigest(bytes: Array(32..<64)), protection: .b, hsmToken: AuditText("primary"))
        var head = ChainHead(node: try required(AuditNode("backend-1")))
        #expect(String(decoding: head.append(record).bytes, as: UTF8.self) == Self.googlePay)
        let entry = try AuditEntry(line: Array(Self.googlePay.utf8))
        #expect(entry.details["wallet"]?.stringValue == "google-pay")
        #expect(entry.details["authMethod"]?.stringValue == "CRYPTOGRAM_3DS")
    }

    @Test(
        "keeps a merchant's identifier of 20 digits, and masks shorter and longer runs of digits",
        arguments: [("1234567890123456789", false), ("12345678901234567890", true), ("123456789012345678901", false)])
    func merchantAtGoogle(identifier: String, isKept: Bool) throws {
        #expect((AuditText(merchantAtGoogle: identifier).text == identifier) == isKept)
        // A search for the identifier finds the record.
        let filter = try AuditFilter(["merchant": identifier])
        #expect(filter.merchant == AuditText(merchantAtGoogle: identifier))
    }

    @Test(
        "writes the trace and the unreached HSM after the event's other members, and reads and verifies them",
        arguments: [(traced, AuditOutcome.refused(.amountMismatch)), (unreached, .refused(.hsmUnavailable))])
    func laterMembers(golden: String, outcome: AuditOutcome) async throws {
        var record = AuditRecord(
            time: try required(AuditTime(rfc3339: "2026-01-31T12:00:00Z")),
            event: .decrypt(reference: .of(Array("order-1234".utf8))), outcome: outcome,
            caller: AuditCaller(name: AuditText("checkout"), uid: 1001, gid: nil))
        record.hsmWasNotReached = golden == Self.unreached
        record.trace = AuditTrace(traceId: "4bf92f3577b34da6a3ce929d0e0e4736", parentId: "00f067aa0ba902b7")
        var head = ChainHead(node: try required(AuditNode("backend-1")))
        #expect(String(decoding: head.append(record).bytes, as: UTF8.self) == golden)

        let entry = try AuditEntry(line: Array(golden.utf8))
        #expect(entry.details["traceId"]?.stringValue == "4bf92f3577b34da6a3ce929d0e0e4736")
        #expect(entry.details["parentId"]?.stringValue == "00f067aa0ba902b7")
        #expect(entry.leavesUseOpen == false)
        let hsm = golden == Self.unreached ? #"""hsm"":""not_reached"","# : ""
        let details = #""{\#(hsm)""traceId"":""4bf92f3577b34da6a3ce929d0e0e4736"",""parentId"":""00f067aa0ba902b7""}""#
        #expect(String(decoding: AuditCSV.row(entry), as: UTF8.self).contains(",\(details),"))
        let directory = try FreshDirectory()
        let script = try await Program.run(
            VerifierScript.path, ["-", directory.write(Self.publicKey, to: "key.pem")],
            input: Array((golden + "\n").utf8))
        #expect(script.output == "unsealed: node backend-1, records 1 to 1, 1 after record 0 not sealed\n")
    }

    @Test(
        "refuses a trace that is not 32 and 16 lower-case hexadecimal digits",
        arguments: [
            ("4BF92F3577B34DA6A3CE929D0E0E4736", "00f067aa0ba902b7"),
            ("4bf92f3577b34da6a3ce929d0e0e473", "00f067aa0ba902b7"),
            ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b70"),
            ("4bf92f3577b34da6a3ce929d0e0e473\"", "00f067aa0ba902b7"), ("", ""),
        ])
    func noTrace(traceId: String, parentId: String) {
        #expect(AuditTrace(traceId: traceId, parentId: parentId) == nil)
    }

    @Test("writes a checkpoint line exactly as in the contract, and accepts OpenSSL's signature of it")
    func checkpointLine() async throws {
        let key = try required(CheckpointKey(pem: Self.publicKey))
        #expect(key.keyId.hex == "647ceea4b4f9167888a8b058761969af0fc8f71df17c1d3e91ec1506d518d09c")
        #expect(key.pem == Self.publicKey)
        let hash = AuditDigest(hex: "694e7d33ba134dd7462c2ad26a287ffc5bed8b872066702a314418310445f7a7")
        let head = try required(
            ChainHead(node: try required(AuditNode("backend-1")), sequence: 2, hash: try required(hash)))
        let time = try required(AuditTime(stored: "2026-01-31T12:01:00.000Z"))
        let checkpoint = try required(head.checkpoint(at: time, keyId: key.keyId))
        let read = try required(SignedCheckpoint(line: Array(Self.checkpoint.utf8)))
        #expect(read.checkpoint == checkpoint)
        #expect(key.verifies(read))
        let made = await checkpoint.signed { _ in read.signature }
        #expect(String(decoding: made.line, as: UTF8.self) == Self.checkpoint)
    }

    @Test("verifies the lines and their checkpoint against the public key")
    func verified() throws {
        var verifier = ChainVerifier(keys: try required(CheckpointKeys(pem: Self.publicKey)))
        let export = [Self.first, Self.second, Self.checkpoint].map { Array($0.utf8) }.export
        verifier.consume(export[...])
        #expect(
            verifier.verdict().description
                == "intact: node backend-1, records 1 to 2, sealed at 2026-01-31T12:01:00.000Z")
        #expect(verifier.records == 2)
        #expect(verifier.lines == 3)
    }
}
