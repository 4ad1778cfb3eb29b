import AuditChain
import Encodings
import Refusals
import StrictJSON
import Testing

@Suite("Events in the audit record")
struct AuditEventTests {
    /// One example of each event, with the members between `outcome` and `hash` in its line. The names are public
    /// contract.
    static let events: [(event: AuditEvent, name: String, members: String)] = {
        let digest = AuditDigest(bytes: [UInt8](repeating: 0xAB, count: 32))!
        let hex = String(repeating: "ab", count: 32)
        let approval = ApprovalIdentifier(bytes: [1, 2, 3, 4])!
        let time = AuditTime(stored: "2026-02-01T00:00:00.000Z")!
        let reason = AuditReason("because")
        let node = AuditNode("node-2")!
        let key = CheckpointKey(pem: GoldenLineTests.publicKey)!
        let keyMembers = #""keyId":"\#(key.keyId.hex)","publicKey":"\#(Base64.encode(key.subjectPublicKeyInfo))""#
        var configuration = ConfigurationValues()
        configuration.set("trust.roots", ConfigurationValue(digest))
        configuration.set("access.1.uid", ConfigurationValue(1001))
        configuration.set("access.1.name", ConfigurationValue("checkout"))
        return [
            (.decrypt(reference: digest), "decrypt", #","reference":"\#(hex)""#),
            (.decrypt(reference: nil), "decrypt", ""),
            (.verify, "verify", ""), (.verifyGooglePay, "verify", #","wallet":"google-pay""#),
            (
                .tlsSignature(
                    TLSSignatureDetails(
                        algorithm: AuditText("rsa_pss_rsae_sha256"), input: digest, reference: digest)),
                "tls_signature",
                #","algorithm":"rsa_pss_rsae_sha256","inputSha256":"\#(hex)","reference":"\#(hex)""#
            ),
            (.tlsSignature(TLSSignatureDetails()), "tls_signature", ""),
            (
                .jwtSignature(
                    JWTSignatureDetails(
                        access: .read, request: AuditText("GET /v1/merchantIds"), keyId: AuditText("2X9R4HXF34"))),
                "jwt_signature", #","access":"read","request":"GET /v1/merchantIds","keyId":"2X9R4HXF34""#
            ),
            (
                .renewalStep(RenewalStepDetails(step: .start, renewal: AuditText("0f1b2c3d4e5f6071"))), "renewal_step",
                #","step":"start","renewal":"0f1b2c3d4e5f6071""#
            ),
            (
                .renewalStep(
                    RenewalStepDetails(
                        step: .activate, renewal: AuditText("0f1b2c3d4e5f6071"),
                        attempt: .init(identifier: RenewalAttemptId(hex: "0a1b2c3d4e5f6071")!, number: 2),
                        appleId: AuditText("C2"), excludedNodes: [AuditNode("node-3")!, node], approval: approval)),
                "renewal_step",
                #","step":"activate","renewal":"0f1b2c3d4e5f6071","attempt":"0a1b2c3d4e5f6071","number":2"#
                    + #","appleId":"C2","excludedNodes":"node-2,node-3","approval":"01020304""#
            ),
            (
                .renewalStep(
                    RenewalStepDetails(
                        step: .answer, renewal: AuditText("0f1b2c3d4e5f6071"),
                        attempt: .init(
                            identifier: RenewalAttemptId(hex: "0a1b2c3d4e5f6071")!, number: 1,
                            outcome: AuditText("refused"), code: AuditText("409 STATE_ERROR")),
                        certificate: digest)),
                "renewal_step",
                #","step":"answer","renewal":"0f1b2c3d4e5f6071","attempt":"0a1b2c3d4e5f6071","number":1"#
                    + #","result":"refused","code":"409 STATE_ERROR","certificateSha256":"\#(hex)""#
            ),
            (.keyProof(certificate: nil), "key_proof", ""),
            (.keyProof(certificate: digest), "key_proof", #","certificateSha256":"\#(hex)""#),
            (
                .jwtSignature(
                    JWTSignatureDetails(
                        access: .write(
                            PortalWriteDetails(
                                appleId: AuditText("A1B2C3D4E5"), certifiedKey: digest, csr: digest,
                                attempt: RenewalAttemptId(hex: "0a1b2c3d4e5f6071")!,
                                approval: ApprovalIdentifier(hex: "01020304")!)),
                        request: AuditText("POST /v1/certificates"), keyId: AuditText("2X9R4HXF34"))),
                "jwt_signature",
                #","access":"write","request":"POST /v1/certificates","keyId":"2X9R4HXF34","appleId":"A1B2C3D4E5""#
                    + #","certifiedKey":"\#(digest.base64)","csrSha256":"\#(hex)""#
                    + #","attempt":"0a1b2c3d4e5f6071","approval":"01020304""#
            ),
            (
                .jwtSignature(
                    JWTSignatureDetails(
                        access: .write(
                            PortalWriteDetails(
                                appleId: AuditText("C1"), certifiedKey: digest, csr: nil,
                                attempt: RenewalAttemptId(hex: "0a1b2c3d4e5f6071")!, approval: nil)),
                        request: AuditText("DELETE /v1/certificates/C1"), keyId: AuditText("2X9R4HXF34"))),
                "jwt_signature",
                #","access":"write","request":"DELETE /v1/certificates/C1","keyId":"2X9R4HXF34","appleId":"C1""#
                    + #","certifiedKey":"\#(digest.base64)","attempt":"0a1b2c3d4e5f6071""#
            ),
            (.request, "request", ""),
            (
                .refusals(RefusalSummary(since: time, counts: [.overloaded: 3, .forbidden: 12, .notFound: 0])!),
                "refusals",
                #","since":"2026-02-01T00:00:00.000Z","count":15,"counts":{"forbidden":12,"overloaded":3}"#
            ),
            (.start(version: AuditText("1.2.0")), "start", #","version":"1.2.0""#),
            (
                .start(
                    version: AuditText("1.2.0"),
                    programs: ProgramDigests(
                        daemon: digest, worker: digest, sbom: digest, modules: ["primary": digest, "b": digest])),
                "start",
                #","version":"1.2.0","paytokendSha256":"\#(hex)","workerSha256":"\#(hex)","sbomSha256":"\#(hex)","modules":{"b":"\#(hex)","primary":"\#(hex)"}"#
            ),
            (
                .programDigests(ProgramDigests(daemon: digest, modules: ["b": digest])), "program_digests",
                #","paytokendSha256":"\#(hex)","modules":{"b":"\#(hex)"}"#
            ),
            (.moduleChange(from: digest, to: nil), "module_change", #","from":"\#(hex)""#),
            (.moduleChange(from: nil, to: digest), "module_change", #","to":"\#(hex)""#),
            (.testKeysCreate(count: 3), "test_keys_create", #","count":3"#),
            (
                .auditKeyChange(from: nil, to: .zero, reason: nil, approval: nil, isFormerKeyLost: true),
                "audit_key_change", #","to":"\#(AuditDigest.zero.hex)","formerKey":"lost""#
            ),
            (.testKeysRemove(count: 3), "test_keys_remove", #","count":3"#),
            (.testKeysRemove(count: nil), "test_keys_remove", ""),
            (
                .headMemoryLost(HeadMemoryLoss(cause: .hung, message: AuditText("C_CreateObject"))),
                "head_memory_lost", #","cause":"hung","message":"C_CreateObject""#
            ),
            (.stop, "stop", ""),
            (.configurationLoad(file: digest), "configuration_load", #","fileSha256":"\#(hex)""#),
            (.configurationReload(file: nil), "configuration_reload", ""),
            (.configurationReload(file: digest), "configuration_reload", #","fileSha256":"\#(hex)""#),
            (
                configuration.events()[0], "configuration_values",
                #","part":1,"parts":1,"values":{"access.1.name":"checkout","access.1.uid":"1001","trust.roots":"\#(hex)"}"#
            ),
            (
                .keyImport(certificate: digest, approval: approval), "key_import",
                #","certificateSha256":"\#(hex)","approval":"01020304""#
            ),
            (.keyGenerate(), "key_generate", ""),
            (
                .keyGenerate(key: KeyFacts(algorithm: .rsa, origin: .generated)), "key_generate",
                #","algorithm":"RSA","bits":2048,"origin":"generated""#
            ),
            (
                .keyImport(
                    certificate: digest, approval: approval,
                    key: KeyFacts(
                        algorithm: .ec, origin: .imported, certificateEnd: time, issuer: AuditText("CN=Apple"))),
                "key_import",
                #","certificateSha256":"\#(hex)","approval":"01020304","algorithm":"EC","bits":256,"origin":"imported","#
                    + #""certificateEnd":"2026-02-01T00:00:00.000Z","issuer":"CN=Apple""#
            ),
            (
                .keyAdopt(approval: nil, key: KeyFacts(algorithm: .ec, origin: .adopted)), "key_adopt",
                #","algorithm":"EC","bits":256,"origin":"adopted""#
            ),
            (
                .keyAdopt(approval: approval, key: KeyFacts(algorithm: .ec, origin: .adopted, wallet: .googlePay)),
                "key_adopt",
                #","approval":"01020304","algorithm":"EC","bits":256,"origin":"adopted","wallet":"google-pay""#
            ),
            (
                .certificateImport(certificate: digest, key: KeyFacts(algorithm: .ec, origin: nil)),
                "certificate_import", #","certificateSha256":"\#(hex)","algorithm":"EC","bits":256"#
            ),
            (
                .keyAttributes([
                    RecordedKeyAttributes(
                        algorithm: .ec, bits: 256, sensitive: true, extractable: false, alwaysSensitive: true,
                        neverExtractable: true, local: true, token: true, private: true, modifiable: false,
                        uses: [.sign, .derive]), RecordedKeyAttributes(),
                ]), "key_attributes",
                #","keys":[{"algorithm":"EC","bits":256,"sensitive":true,"extractable":false,"alwaysSensitive":true,"#
                    + #""neverExtractable":true,"local":true,"stored":true,"private":true,"modifiable":false,"#
                    + #""uses":["derive","sign"]},{"uses":[]}]"#
            ),
            (
                .tokenAttributes(
                    RecordedHSMToken(
                        label: AuditText("l"), serialNumber: AuditText("s"), manufacturer: AuditText("m"),
                        model: AuditText("o"), hardwareVersion: AuditText("1.2"), firmwareVersion: AuditText(""),
                        library: AuditText("lib 1"), tierECv1: .b, tierRSAv1: nil, tierECv2: .c,
                        shortcomings: [AuditText("RSA_v1: no.")])), "token_attributes",
                #","label":"l","serialNumber":"s","manufacturer":"m","model":"o","hardwareVersion":"1.2","#
                    + #""library":"lib 1","tierECv1":"B","tierECv2":"C","shortcomings":["RSA_v1: no."]"#
            ),
            (.keyObjectsDestroy, "key_objects_destroy", ""),
            (.keyAdopt(approval: approval), "key_adopt", #","approval":"01020304""#),
            (.csrCreate, "csr_create", ""),
            (.certificateImport(certificate: digest), "certificate_import", #","certificateSha256":"\#(hex)""#),
            (
                .keyStateChange(
                    KeyStateChange(from: .preActivation, to: .destroyed, reason: reason, approval: approval)),
                "key_state_change",
                #","from":"pre-activation","to":"destroyed","reason":"because","approval":"01020304""#
            ),
            (
                .keyStateChange(KeyStateChange(from: nil, to: .deactivated, cutOff: .earliest)), "key_state_change",
                #","to":"deactivated","cutOff":"0001-01-01T00:00:00.000Z""#
            ),
            (
                .approvalRequest(
                    ApprovalRequest(
                        approval: approval, operation: .ledgerAcceptRestore, parameters: digest, reason: reason,
                        expires: time)),
                "approval_request",
                #","approval":"01020304","operation":"ledger_accept_restore","parametersSha256":"\#(hex)","#
                    + #""reason":"because","expires":"2026-02-01T00:00:00.000Z""#
            ),
            (
                .approvalDecision(approval: approval, decision: .reject, reason: reason), "approval_decision",
                #","approval":"01020304","decision":"reject","reason":"because""#
            ),
            (.auditList(records: 20), "audit_list", #","records":20"#),
            (
                .auditExport(format: .jsonl, first: 1, last: 99), "audit_export",
                #","format":"jsonl","first":1,"last":99"#
            ),
            (.auditVerify(verdict: .broken, records: 7), "audit_verify", #","verdict":"broken","records":7"#),
            (.auditPublicKey(ofNode: AuditText("all")), "audit_public_key", #","ofNode":"all""#),
            (.auditHead(), "audit_head", ""),
            (.auditTokenUses(since: nil, until: nil), "audit_token_uses", ""),
            (.auditReport(nil), "audit_report", ""),
            (
                .auditReport(
                    ReportMade(
                        page: digest, since: time, until: AuditTime(stored: "2026-03-01T00:00:00.000Z")!,
                        lastSequences: [(node, 7), (AuditNode("node-1")!, 41_207)])!), "audit_report",
                #","pageSha256":"\#(hex)","since":"2026-02-01T00:00:00.000Z","until":"2026-03-01T00:00:00.000Z","#
                    + #""lastSequences":{"node-2":7,"node-1":41207}"#
            ),
            (.auditHead(ofNode: AuditText("node-2")), "audit_head", #","ofNode":"node-2""#),
            (
                .auditKeyChange(from: digest, to: digest, reason: nil, approval: nil), "audit_key_change",
                #","from":"\#(hex)","to":"\#(hex)""#
            ),
            (
                .auditKeyPrepare(from: digest, to: digest), "audit_key_prepare",
                #","from":"\#(hex)","to":"\#(hex)""#
            ),
            (
                .auditKeyPinned(KeyPin(trustedOnFirstUse: [key], of: node)!), "audit_key_pinned",
                #","ofNode":"node-2","keys":[{\#(keyMembers)}]"#
            ),
            (
                .auditKeyPinned(KeyPin(key, of: node, by: KeyPin.Endorsement(keyId: digest, sequence: 7))),
                "audit_key_pinned",
                #","ofNode":"node-2","keys":[{\#(keyMembers)}],"vouchedBy":"\#(hex)","vouchedAt":7"#
            ),
            (
                .auditKeyConflict(node: node, key: key), "audit_key_conflict", #","ofNode":"node-2",\#(keyMembers)"#
            ),
            (.auditList(records: 2, ofNode: AuditText("node-2")), "audit_list", #","ofNode":"node-2","records":2"#),
            (.ledgerBackup(bytes: 4096, file: digest), "ledger_backup", #","bytes":4096,"fileSha256":"\#(hex)""#),
            (
                .ledgerAcceptRestore(
                    LedgerRestore(ledgerSequence: 10, hsmTokenSequence: 20, reason: reason, approval: approval)),
                "ledger_accept_restore",
                #","ledgerSequence":10,"tokenSequence":20,"reason":"because","approval":"01020304""#
            ),
            (
                .ledgerAcceptRestore(
                    LedgerRestore(ledgerSequence: 0, hsmTokenSequence: nil, servedFrom: time, reason: nil)),
                "ledger_accept_restore", #","ledgerSequence":0,"servedFrom":"2026-02-01T00:00:00.000Z""#
            ),
            (
                .claimsPrune(count: 5, before: time), "claims_prune",
                #","count":5,"before":"2026-02-01T00:00:00.000Z""#
            ),
            (
                .recordsDropped(count: 12, since: time), "records_dropped",
                #","since":"2026-02-01T00:00:00.000Z","count":12"#
            ),
            (
                .recordArchive(RecordArchive(first: 1, last: 20, hash: digest, digest: digest, size: 4096)!),
                "record_archive",
                #","first":1,"last":20,"lastHash":"\#(hex)","fileSha256":"\#(hex)","bytes":4096"#
            ),
            (
                .keyStates(KeyStatesPart.parts(of: [(key: digest, state: .preActivation)])[0]), "key_states",
                #","keys":{"\#(hex)":"pre-activation"}"#
            ),
            (
                .ledgerAcceptClock(
                    LedgerClockAcceptance(
                        newestRecord: time, forgottenBefore: time, servedFrom: time, reason: reason, approval: approval)
                ),
                "ledger_accept_clock",
                #","newestRecord":"2026-02-01T00:00:00.000Z","forgottenBefore":"2026-02-01T00:00:00.000Z","#
                    + #""servedFrom":"2026-02-01T00:00:00.000Z","reason":"because","approval":"01020304""#
            ),
        ]
    }()

    @Test("writes each event with its name and members, in their order", arguments: events.indices)
    func written(index: Int) throws {
        let (event, name, members) = Self.events[index]
        #expect(event.name.rawValue == name)
        var head = ChainHead(node: try required(AuditNode("n")))
        let line = head.append(AuditRecord(time: AuditTime(milliseconds: 0), event: event))
        let expected =
            #"{"node":"n","sequence":1,"time":"1970-01-01T00:00:00.000Z","event":"\#(name)","outcome":"ok"\#(members),"#
            + #""hash":"\#(line.hash.hex)"}"#
        #expect(String(decoding: line.bytes, as: UTF8.self) == expected)
    }

    @Test("covers every event with an example in this suite")
    func complete() {
        #expect(Set(Self.events.map(\.event.name)) == Set(AuditEvent.Name.allCases))
    }

    @Test("reads each event back as it was written", arguments: events.indices)
    func readBack(index: Int) throws {
        let (event, name, members) = Self.events[index]
        let caller = AuditCaller(name: nil, uid: 4_294_967_294, gid: nil, loginUID: nil, pid: 1, comm: AuditText("x"))
        let record = AuditRecord(
            time: AuditTime(milliseconds: 1), event: event, outcome: .refused(.hsmUnavailable), caller: caller,
            merchant: AuditText("m"), publicKeyHash: .of([1]), transactionId: .of([2]), protection: .b,
            hsmToken: AuditText("t"))
        var head = ChainHead(node: try required(AuditNode("n")))
        let line = head.append(record)
        let entry = try AuditEntry(line: line.bytes)
        #expect(entry.node == line.node)
        #expect(entry.sequence == 1)
        #expect(entry.time == record.time)
        #expect(entry.event == name)
        #expect(entry.outcome == "hsm_unavailable")
        #expect(entry.caller == caller)
        #expect(entry.merchant == "m")
        #expect(entry.publicKeyHash == record.publicKeyHash)
        #expect(entry.transactionId == record.transactionId)
        #expect(entry.protection == "B")
        #expect(entry.hsmToken == "t")
        #expect(entry.hash == line.hash)
        #expect(JSONValue.object(entry.details) == (try JSONValue(parsing: "{" + members.dropFirst() + "}")))
    }

    @Test("writes an outcome as ok, repeat or a refusal's code, and reads it back")
    func outcomes() {
        let all = [AuditOutcome.ok, .repeated] + RefusalCode.allCases.map(AuditOutcome.refused)
        for outcome in all { #expect(AuditOutcome(outcome.text) == outcome) }
        #expect(Set(all.map(\.text)).count == all.count)
        #expect(AuditOutcome.repeated.text == "repeat")
        #expect(AuditOutcome("OK") == nil)
    }

    @Test("records a flood of refusals with the most frequent code as its outcome")
    func floods() throws {
        let since = AuditTime(milliseconds: 0)
        let flood = try required(RefusalSummary(since: since, counts: [.forbidden: 2, .overloaded: 9]))
        let record = AuditRecord(time: since, refusals: flood, caller: AuditCaller(name: nil, uid: 5, gid: nil))
        #expect(record.outcome == .refused(.overloaded))
        #expect(flood.total == 11)
        let equal = try required(RefusalSummary(since: since, counts: [.overloaded: 1, .forbidden: 1]))
        #expect(equal.outcome == .refused(.forbidden))
        #expect(RefusalSummary(since: since, counts: [.forbidden: 0]) == nil)
        #expect(RefusalSummary(since: since, counts: [.forbidden: .max, .overloaded: 1])?.total == .max)
    }

    @Test("writes the largest possible record within the limit of a line, and reads it back")
    func largest() throws {
        let wide = String(repeating: "\u{10348}", count: 400)
        let quotes = String(repeating: "\"", count: 400)
        let counts = Dictionary(uniqueKeysWithValues: RefusalCode.allCases.map { ($0, Int.max) })
        for text in [wide, quotes] {
            let name = AuditText(text)
            let caller = AuditCaller(name: name, uid: .max, gid: .max, loginUID: .max, pid: .min, comm: name)
            let time = AuditTime.latest
            let flood = try required(RefusalSummary(since: time, counts: counts))
            let approval = try required(ApprovalIdentifier(bytes: [UInt8](repeating: 9, count: 16)))
            let request = ApprovalRequest(
                approval: approval, operation: .ledgerAcceptRestore, parameters: .zero, reason: AuditReason(text),
                expires: time)
            // More values than 32 parts hold, so that every part except the last has its maximum size.
            var configuration = ConfigurationValues()
            for number in 0..<3000 { configuration.set("\(number).\(text)", ConfigurationValue(text)) }
            let parts = configuration.events()
            let modules = Dictionary(
                (0..<16).map { (String(repeating: "m", count: 62) + "\($0)", AuditDigest.zero) },
                uniquingKeysWith: { first, _ in first })
            let programs = ProgramDigests(daemon: .zero, worker: .zero, sbom: .zero, modules: modules)
            let events = [
                AuditEvent.refusals(flood), .approvalRequest(request), .start(version: name, programs: programs),
            ]
            for event in events + parts {
                var head = try required(
                    ChainHead(
                        node: try required(AuditNode(String(repeating: "n", count: 64))),
                        sequence: 999_999_999_999_999_998, hash: .zero))
                let line = head.append(
                    AuditRecord(
                        time: time, event: event, outcome: .refused(.signingTimeOutsideWindow), caller: caller,
                        merchant: name, publicKeyHash: .zero, transactionId: .zero, protection: .c, hsmToken: name))
                #expect(line.bytes.count <= AuditLine.maximumBytes)
                #expect(try AuditEntry(line: line.bytes).sequence == 999_999_999_999_999_999)
            }
        }
    }
}
