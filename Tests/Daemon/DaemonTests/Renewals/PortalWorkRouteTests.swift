import AccessControl
import AuditChain
import Crypto
import DaemonAPI
import Foundation
import KeySealing
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import PortalRequests
import SecretMemory
import ServerProgram
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import Daemon
@testable import DaemonConfiguration
@testable import HTTPListener
@testable import Telemetry
@testable import UsageRecording
@testable import WorkerSupervision

/// The outbound program's endpoints: a real worker with a service key in SoftHSM, a real ledger, and no network.
private struct PortalWorkFixture {
    private static let names = PortalKeyName(issuer: "57246542-96fe-1a63-e053-0824d011072a", keyId: "2X9R4HXF34")!
    private static let merchant = "merchant.com.example.shop"

    private let key = P256.Signing.PrivateKey()
    private let forged: ForgedMerchant
    let hash: PublicKeyHash
    private let directory: FreshDirectory
    private let hsm: TokenDirectory
    private let worker: HSMToken
    let record: RecordFixture
    private let router: DaemonRouter
    private let writes = PortalWrites()

    /// - Parameter state: the state of the key whose certificate is requested.
    init(state: KeyState, serviceState: KeyState = .active) async throws {
        forged = try SharedForge.ecMerchant
        hash = PublicKeyHash.of(subjectPublicKeyInfo: forged.key.subjectPublicKeyInfo)
        directory = try FreshDirectory()
        hsm = try await TokenDirectory()
        var settings = HSMTokenSettings(
            name: "primary", module: SoftHSM.libraryPath, uri: "pkcs11:token=\(TokenDirectory.label)",
            pinFile: hsm.pinFile, sessions: 1, callTimeout: .seconds(10), recycleAfter: 1_000_000,
            allowExtractableSecret: true, environment: hsm.environment, initArgs: "")
        settings.portalKey = Self.names
        worker = HSMToken(
            settings, executable: try WorkerExecutable(path: Program.built("paytokend-hsm")),
            logger: RecordFixture.quiet)
        await worker.start()
        let information = Array(key.publicKey.derRepresentation)
        let description = try await Self.opened(worker)
        let sealed = try KeySealing.seal(
            privateKey: SecretBytes(copying: Array(key.derRepresentation)), authenticating: information,
            to: description.importKey)
        try await worker.importPrivateKey(
            PrivateKeyImport(
                merchantIdentifier: Self.names.keyId, use: .service, publicKey: information,
                encapsulatedKey: sealed.encapsulatedKey, sealedPrivateKey: sealed.sealed))

        record = try await RecordFixture(
            ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken(), at: Date())
        await record.gate.compare()
        let service = KeyRecord(
            publicKeyHash: PublicKeyHash.of(subjectPublicKeyInfo: information),
            merchantIdentifier: Self.names.keyId, algorithm: .ec, use: .service, state: serviceState, cutOff: nil,
            createdAt: Date(), origin: .imported)
        let certified = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: Self.merchant, algorithm: .ec, state: state, cutOff: nil,
            createdAt: Date(), origin: .imported)
        for key in [service, certified] {
            try await record.ledger.apply(AdministrativeChange(at: Date(), key: key, records: []))
        }
        let keys = KeyIndex()
        keys.rebuild(
            hsmTokens: [("primary", try await worker.describeKey(service.publicKeyHash))],
            keyRecords: [service, certified])
        let instruments = Instruments()
        let signatures = RecordedSignatures(
            keys: keys, hsm: HSMTokenPool(first: worker, others: []),
            commit: UseCommit(
                gate: record.gate, recorder: record.recorder, seconds: instruments.ledgerCommitSeconds,
                answerTime: .seconds(60)),
            instruments: instruments, clock: .system)
        let configuration = try ConfigurationFixture()
        try configuration.directory.write(SharedForge.authority.root.certificatePEM, to: "root.pem")
        let policies = CurrentPolicies(
            try Policies(
                configuration.load(
                    ConfigurationFixture.minimum + """
                        trust: { roots: [root.pem] }
                        approvals: { people: 1 }
                        access:
                          - { name: outbound, user: "\(geteuid())", roles: [portal-read] }

                        """)))
        router = Router(
            routes: RouteTable.portal(
                PortalRoutes(
                    reads: PortalReads(), writes: writes,
                    signer: JWTSigner(signatures: signatures, renewal: RenewalSettings(key: Self.names)), keys: keys,
                    access: { policies.current.access }, clock: .system, instruments: instruments)),
            rules: DaemonRules(policies: policies, recorder: record.recorder),
            log: RequestLog(
                requests: instruments.requests, seconds: instruments.requestSeconds, logger: RecordFixture.quiet))
    }

    private static func opened(_ worker: HSMToken) async throws -> HSMTokenDescription {
        try await wait(for: "the HSM token to be open", within: 120) {
            if case .ready = worker.condition { true } else { false }
        }
        guard case .ready(let description) = worker.condition else { throw CancellationError() }
        return description
    }

    func post(_ path: String, _ body: String = "{}") async throws -> (status: Int, body: [UInt8]) {
        let body = Array(body.utf8)
        let head = RequestHead(
            method: "POST", path: path, query: [:], contentType: "application/json", contentLength: body.count,
            fields: [:])
        let answer: HTTPAnswer
        switch router.admit(
            head, from: DaemonPeer(credentials: PeerCredentials(uid: geteuid(), gid: getegid()), socket: .payments))
        {
        case .refuse(let refusal): answer = refusal
        case .accept(_, let respond): answer = await respond(body)
        }
        return (answer.status, try await EndpointAnswer(http: answer).bytes)
    }

    func work() async throws -> PortalWork? {
        let answer = try await post("/v1/portal/work")
        #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
        return try JSONCoding.decode(PortalWorkAnswer.self, from: answer.body).work
    }

    /// Queues a request for a new certificate.
    func enqueue(
        _ approval: ApprovalIdentifier? = nil
    ) throws -> (attempt: RenewalAttemptId, csr: [UInt8], results: Shared<[PortalWriteResult]>) {
        let (attempt, results) = (RenewalAttemptId.random(), Shared<[PortalWriteResult]>([]))
        let csr = try forged.key.certificateRequest()
        let new = try #require(NewCertificate(type: .applePay, csr: csr))
        let resource = try #require(ResourceId("A1B2C3D4E5"))
        let write = try #require(
            PortalWrite(
                attempt: attempt, approval: approval, merchant: Self.merchant, use: .processing,
                request: .createCertificate(new, merchantResource: resource), publicKeyHash: hash))
        #expect(writes.enqueue(write) { result in results.change { $0.append(result) } })
        return (attempt, csr, results)
    }

    func claims(_ token: String) throws -> NSDictionary {
        let parts = token.split(separator: ".").map(String.init)
        try #require(parts.count == 3)
        func bytes(_ text: String) throws -> Data {
            let base64 = text.replacing("-", with: "+").replacing("_", with: "/")
            return try #require(Data(base64Encoded: base64 + String(repeating: "=", count: (4 - base64.count % 4) % 4)))
        }
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: bytes(parts[2]))
        #expect(key.publicKey.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
        return try #require(JSONSerialization.jsonObject(with: bytes(parts[1])) as? NSDictionary)
    }
}

@Suite struct PortalWorkRouteTests {
    @Test("hands out a write once with a token of its own, records what it is for, and takes its result once")
    func whole() async throws {
        let test = try await PortalWorkFixture(state: .preActivation)
        #expect(try await test.work() == nil)
        let approval = ApprovalIdentifier.random()
        let (attempt, csr, results) = try test.enqueue(approval)
        let work = try #require(try await test.work())
        #expect(work.kind == "create_certificate" && work.name == "A1B2C3D4E5" && work.certificateType == "APPLE_PAY")
        #expect(work.csr == Data(csr).base64EncodedString())
        let claims = try test.claims(work.jwt)
        #expect(claims["scope"] == nil && claims["aud"] as? String == "appstoreconnect-v1")
        #expect(try await test.work() == nil)

        let entry = try #require(try await test.record.entries.last)
        for (name, value) in [
            "access": "write", "request": "POST /v1/certificates", "keyId": "2X9R4HXF34", "appleId": "A1B2C3D4E5",
            "certifiedKey": test.hash.base64, "csrSha256": AuditDigest.of(csr).hex, "attempt": attempt.hex,
            "approval": approval.hex,
        ] { #expect(entry.details[name]?.stringValue == value, "\(name)") }
        let lines = try await test.record.ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 1000)
        for line in lines.records.map(\.line) {
            #expect(!String(decoding: line, as: UTF8.self).contains("eyJ"), "a JSON Web Token is in the record")
        }

        let report = #"{"status":409,"code":"ENTITY_ERROR.ATTRIBUTE.INVALID"}"#
        #expect(try await test.post("/v1/portal/work/\(work.id)", report).status == 200)
        #expect(results.current == [.refused(status: 409, code: "ENTITY_ERROR.ATTRIBUTE.INVALID")])
        #expect(try await test.post("/v1/portal/work/\(work.id)", report).status == 404)
        #expect(results.current.count == 1)
    }

    @Test("signs no token for a key that was suspended after the decision, and says that nothing was sent")
    func suspended() async throws {
        let test = try await PortalWorkFixture(state: .suspended)
        let (_, _, results) = try test.enqueue()
        let answer = try await test.post("/v1/portal/work")
        #expect(answer.status == 409, "\(String(decoding: answer.body, as: UTF8.self))")
        guard case .notSent(let reason)? = results.current.first else {
            Issue.record("\(results.current)")
            return
        }
        #expect(reason.contains("suspended") && results.current.count == 1)
        #expect(try await test.work() == nil)
    }

    @Test("signs no token without an active service key, and says that nothing was sent")
    func noServiceKey() async throws {
        let test = try await PortalWorkFixture(state: .preActivation, serviceState: .suspended)
        let (_, _, results) = try test.enqueue()
        #expect(try await test.post("/v1/portal/work").status >= 400)
        guard case .notSent? = results.current.first else {
            Issue.record("\(results.current)")
            return
        }
        #expect(try await test.work() == nil)
    }
}
