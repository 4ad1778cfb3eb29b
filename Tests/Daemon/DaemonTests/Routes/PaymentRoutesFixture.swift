import AccessControl
import AuditChain
import Foundation
import GRDB
import Glibc
import Ledger
import Locks
import MerchantKeys
import NIOHTTP1
import PaymentToken
import ServerProgram
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import Daemon
@testable import HTTPListener
@testable import Telemetry
@testable import UsageRecording
@testable import WorkerSupervision

/// The payments socket's paths with a real ledger and one active merchant key. A stand-in that knows each payment
/// token's plaintext replaces the worker.
final class PaymentRoutesFixture: Sendable {
    let merchant: ForgedMerchant
    let hsm = KnownPlaintext()
    let record: RecordFixture
    let instruments = Instruments()
    let arrivals = RefusedPaymentTokenCounts()
    let firstReleases: CallerFirstReleases
    let router: DaemonRouter
    let policies: CurrentPolicies
    let index: KeyIndex
    /// The seconds by which the decryptor's clock is ahead of this host's.
    let lead = Shared<TimeInterval>(0)
    private let directory: FreshDirectory
    private let log: StandardErrorLog
    private let logFile: FileHandle
    private let configuration: ConfigurationFixture
    private let hasGooglePay: Bool
    let peer = PeerCredentials(uid: geteuid(), gid: getegid())

    /// - Parameters:
    ///   - rule: additional YAML members of the only access rule, which is named `shop` and has the role decrypt.
    ///   - inconsistency: the worker's reason for not using the key; nil if the key can be used.
    ///   - googlePay: the file of Google's root keys; nil without Google Pay.
    ///   - googlePayKeys: Google Pay keys of the merchant `BCR2DN4TEXAMPLE`, each with its record.
    ///   - answerTime: the maximum time from the start of a commit until its answer may be sent.
    ///   - opening: the first opening of the HSM tokens; by default it is over.
    init(
        rule: String = "", inconsistency: String? = nil, answerTime: Duration = .seconds(60),
        state: KeyState = .active, cutOff: Date? = nil, googlePay: [UInt8]? = nil,
        googlePayKeys: [(subjectPublicKeyInfo: [UInt8], keyRecord: KeyRecord)] = [],
        opening: FirstOpening = FirstOpening(isOver: true)
    ) async throws {
        merchant = try SharedForge.ecMerchant
        directory = try FreshDirectory()
        configuration = try ConfigurationFixture()
        try configuration.directory.write(SharedForge.authority.root.certificatePEM, to: "root.pem")
        if let googlePay { try configuration.directory.write(googlePay, to: "google.json") }
        hasGooglePay = googlePay != nil
        policies = CurrentPolicies(try Self.policies(configuration, rule: rule, googlePay: hasGooglePay))
        record = try await RecordFixture(
            ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken(), at: Date())
        await record.gate.compare()

        let hash = PublicKeyHash.of(subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo)
        let key = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: merchant.merchant.identifier, algorithm: .ec, state: state,
            cutOff: cutOff, createdAt: Date(), origin: .imported)
        try await record.ledger.apply(AdministrativeChange(at: Date(), key: key, records: []))
        for googlePay in googlePayKeys {
            try await record.ledger.apply(AdministrativeChange(at: Date(), key: googlePay.keyRecord, records: []))
        }
        index = KeyIndex()
        index.rebuild(
            hsmTokens: [
                (
                    "primary",
                    [
                        KeyDescription(
                            identifier: hash.bytes, label: merchant.merchant.identifier, algorithm: .ec,
                            subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo,
                            certificates: [merchant.certificate], isProtected: true, inconsistency: inconsistency)
                    ]
                        + googlePayKeys.map { key in
                            KeyDescription(
                                identifier: key.keyRecord.publicKeyHash.bytes, label: "", algorithm: .ec,
                                subjectPublicKeyInfo: key.subjectPublicKeyInfo, certificates: [], isProtected: true,
                                inconsistency: nil)
                        }
                )
            ], keyRecords: [key] + googlePayKeys.map(\.keyRecord))

        logFile = try FileHandle(forWritingTo: URL(filePath: directory.write("", to: "log")))
        log = StandardErrorLog(LogSettings(level: .trace), sink: LogSink(descriptor: logFile.fileDescriptor))
        let lead = lead
        let decryptor = TokenDecryptor(
            policies: policies, keys: index, hsm: hsm, opening: opening,
            commit: UseCommit(
                gate: record.gate, recorder: record.recorder, seconds: instruments.ledgerCommitSeconds,
                answerTime: answerTime),
            ledgerClock: LedgerClock(
                ledger: record.ledger, clock: WallClock { Date().addingTimeInterval(lead.current) }
            ) { .seconds(300) }, arrivals: arrivals, instruments: instruments)
        let firstReleases = CallerFirstReleases(
            ledger: record.ledger, instruments: instruments, logger: RecordFixture.quiet)
        self.firstReleases = firstReleases
        router = Router(
            routes: RouteTable.payments(
                DecryptionRoutes(decryptor: decryptor, firstReleases: firstReleases), bodyLimit: 65_536),
            rules: DaemonRules(policies: policies, recorder: record.recorder),
            log: RequestLog(
                requests: instruments.requests, seconds: instruments.requestSeconds, logger: log.logger("paytokend")))
    }

    private static func policies(
        _ fixture: ConfigurationFixture, rule: String, googlePay: Bool
    ) throws -> Policies {
        let members = rule.isEmpty ? "" : ", \(rule)"
        return try Policies(
            fixture.load(
                ConfigurationFixture.minimum + """
                    trust: { roots: [root.pem]\(googlePay ? ", google_pay: google.json" : "") }
                    approvals: { people: 1 }
                    access:
                      - { name: shop, user: "\(geteuid())", roles: [decrypt]\(members) }

                    """))
    }

    /// Changes the rule's members, from the next request on.
    func change(rule: String) throws {
        policies.replace(with: try Self.policies(configuration, rule: rule, googlePay: hasGooglePay))
    }

    /// Returns a payment token with this payload, which the worker's stand-in then opens.
    func mint(_ payload: PayloadRecipe = PayloadRecipe(), applicationData: [UInt8]? = nil) throws -> MintedToken {
        let paymentToken = try SharedForge.mint.mint(
            TokenRecipe(merchant: merchant.merchant, payload: payload.json, applicationData: applicationData))
        hsm.opens(to: payload.json)
        return paymentToken
    }

    /// Prunes claims like a process whose clock is ahead.
    func forgetClaims(before time: Date) throws {
        let queue = try DatabaseQueue(path: directory.path("ledger.sqlite"))
        try queue.write { db in
            try db.execute(
                sql: "INSERT INTO ledger_meta VALUES ('forgotten_before', ?)",
                arguments: [String(Int64(time.timeIntervalSince1970 * 1000))])
        }
        try queue.close()
    }

    /// Removes all claims, like a pruning by another process.
    func removeClaims() throws {
        let queue = try DatabaseQueue(path: directory.path("ledger.sqlite"))
        try queue.write { db in try db.execute(sql: "DELETE FROM claim") }
        try queue.close()
    }

    /// - Parameters:
    ///   - traceparent: values of the header of that name.
    ///   - client: values of the header `Paytokend-Client`.
    func post(
        _ path: String, _ body: [UInt8], query: [String: String] = [:], traceparent: [String] = [],
        client: [String] = [],
        from origin: RequestOrigin? = nil
    ) async throws -> (status: Int, body: [UInt8]) {
        var head = RequestHead(
            method: "POST", path: path, query: query, contentType: "application/json", contentLength: body.count,
            fields: HTTPHeaders(
                traceparent.map { ("traceparent", $0) } + client.map { ("paytokend-client", $0) }))
        head.origin = origin
        let answer: HTTPAnswer
        switch router.admit(head, from: DaemonPeer(credentials: peer, socket: .payments)) {
        case .refuse(let refusal): answer = refusal
        case .accept(_, let respond): answer = await respond(body)
        }
        return (answer.status, try await EndpointAnswer(http: answer).bytes)
    }

    /// The log so far.
    var logged: [UInt8] {
        get throws {
            log.flush()
            return Array(try Data(contentsOf: URL(filePath: directory.path("log"))))
        }
    }

    /// The stored lines of the audit record.
    var recorded: [UInt8] {
        get async throws {
            try await record.ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 1000).records
                .flatMap { $0.line + [0x0A] }
        }
    }
}

/// Answers each decryption with a known plaintext, and counts the decryptions.
final class KnownPlaintext: TransactionDecrypting {
    private let state = Mutex((plaintext: [UInt8](), calls: 0, lack: String?.none, failure: WorkerFailure?.none))
    /// The only key with which a message opens; nil for any. Each other one fails as a wrong tag does, or as given here.
    let onlyKey = Shared<[UInt8]?>(nil)
    let failures = Shared<[[UInt8]: WorkerFailure]>([:])
    /// The keys and schemes of the decryptions.
    let tried = Shared<[Decryption]>([])
    /// The value of the header `Paytokend-Client` for each decryption; nil without the header.
    let clients = Shared<[String?]>([])
    /// Called during each decryption.
    let opening = Shared<@Sendable () -> Void>({})

    func opens(to plaintext: [UInt8]) { state.withLock { $0.plaintext = plaintext } }
    /// Sets the mechanism that the HSM token reports as missing for the key; nil for none.
    func lacks(_ lack: String?) { state.withLock { $0.lack = lack } }
    /// Makes each later decryption fail with this failure.
    func fails(_ failure: WorkerFailure) { state.withLock { $0.failure = failure } }
    func missingTier(for key: KeyEntry) -> String? { state.withLock { $0.lack } }
    var calls: Int { state.withLock { $0.calls } }

    func decrypt(
        _ decryption: Decryption, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> OpenedTransaction {
        clients.change { $0.append(requester.client) }
        opening.current()
        let (plaintext, failure) = state.withLock { state in
            state.calls += 1
            return (state.plaintext, state.failure)
        }
        tried.change { $0.append(decryption) }
        if let failure = failure ?? failures.current[decryption.publicKeyHash] { throw failure }
        if let only = onlyKey.current, only != decryption.publicKeyHash {
            throw WorkerFailure(.decryptionFailed, "another key")
        }
        return OpenedTransaction(plaintext: plaintext, tier: .c, hsmToken: holders.first ?? "primary")
    }
}
