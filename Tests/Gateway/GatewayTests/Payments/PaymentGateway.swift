import AccessControl
import ConfigurationFile
import Foundation
import GooglePayToken
import Logging
import Payments
import TestSupport
import TokenForge

@testable import Gateway
@testable import HTTPListener
@testable import Processors

/// A processor that gives scripted responses and stores the submissions that it receives.
struct ScriptedProcessor: Processor {
    let capabilities: ProcessorCapabilities
    /// The response to a later status request; nil for a processor that has no status request.
    let laterStatus: ProcessorStatus?
    /// The outcomes in the order of submissions; the last one is repeated.
    let outcomes: [SubmissionOutcome]
    let submissions = Shared<[Submission]>([])
    /// A latch that delays all responses while it is closed.
    let latch = Latch(isOpen: true)
    /// The callbacks for responses after the deadline, in the order of submissions.
    let late = Shared<[LateOutcome]>([])

    init(_ outcomes: [SubmissionOutcome], laterStatus: ProcessorStatus? = nil) {
        precondition(!outcomes.isEmpty)
        self.outcomes = outcomes
        self.laterStatus = laterStatus
        capabilities = ProcessorCapabilities(
            googlePay: [.cryptogram3DS, .panOnly], tellsStatus: laterStatus != nil)
    }

    func status(of payment: SubmittedPayment, before deadline: ContinuousClock.Instant) async -> ProcessorStatus {
        laterStatus ?? .notAnswered("cannot be asked")
    }

    func authorize(
        _ submission: Submission, before deadline: ContinuousClock.Instant, late: @escaping LateOutcome
    ) async -> SubmissionOutcome {
        submissions.change { $0.append(submission) }
        self.late.change { $0.append(late) }
        await latch.pass()
        return outcomes[min(submissions.current.count, outcomes.count) - 1]
    }
}

/// A gateway that accepts payments, with TLS and client certificates, between a simulated paytokend and a scripted
/// processor.
struct PaymentGateway {
    static let key = "ptgw_of-the-shop"
    /// Another bearer key of the client `shop`.
    static let newKey = "ptgw_new-of-the-shop"
    static let otherKey = "ptgw_of-another"
    /// The key of the client `google`, which may use Google Pay alone.
    static let googleKey = "ptgw_of-google"

    let directory: FreshDirectory
    let certificates: TestCertificates
    let paytokend: DecryptingPaytokend
    let processor: ScriptedProcessor
    let payload: PayloadRecipe
    let store: SQLitePaymentStore
    let calls: PaytokendCalls
    let payments: PaymentService
    let log = Shared<[String]>([])
    private let listener: Listener

    static func authorized(
        reason: String? = nil, reference: String? = "sim-000001"
    ) -> SubmissionOutcome {
        .answered(
            ProcessorAnswer(
                .authorized,
                PaymentOutcome(
                    reason: reason, authorizationCode: "A1B2C3", processorReference: reference, processedAt: Date())))
    }

    /// - Parameters:
    ///   - outcomes: the processor's outcomes.
    ///   - laterStatus: the processor's response to a status request about a pending payment.
    ///   - since: `since` of the shop's entry.
    ///   - maxConnections: the maximum number of connections to paytokend.
    ///   - authMethods: the kinds of Google Pay's card numbers that the processor's entry permits.
    ///   - maxPayments: the maximum number of simultaneous payments of one client.
    init(
        _ outcomes: [SubmissionOutcome] = [authorized()], laterStatus: ProcessorStatus? = nil,
        payload: PayloadRecipe = PayloadRecipe(), paytokendAnswers: Bool = true, since: String = "2020-01-01",
        maxConnections: Int = 100, maxPayments: Int = 128,
        authMethods: Set<GooglePayPayload.AuthMethod> = [.cryptogram3DS]
    ) async throws {
        directory = try FreshDirectory()
        certificates = try TestCertificates(in: directory)
        self.payload = payload
        paytokend = try await DecryptingPaytokend(
            at: directory.path(paytokendAnswers ? "p.sock" : "elsewhere.sock"), paymentData: payload.json)
        processor = ScriptedProcessor(outcomes, laterStatus: laterStatus)
        try directory.write(
            """
            listener:
              address: "127.0.0.1:0"
              tls: { certificate: server.pem, private_key: server.key, client_ca: ca.pem }
            admin: { socket: a.sock }
            paytokend: { socket: p.sock, timeout: 60s, max_connections: \(maxConnections) }
            limits:
              max_payments_per_client: \(maxPayments)
              request_timeout: 60s
              authentication_timeout: 60s
              idle_timeout: 10m
            store: { url: "sqlite:payments.sqlite" }
            processors:
              - { name: acquirer, kind: simulator, url: "unix:/s", merchants: ["*"] }
            clients:
              - name: shop
                key_sha256: ["\(GatewayFixture.NewKeyHash.of(Self.key))", "\(GatewayFixture.NewKeyHash.of(Self.newKey))"]
                since: \(since)
                merchants: ["merchant.com.example.*"]
                google_pay: { merchants: ["BCR2*"] }
                operations: [pay, status]
              - name: other
                key_sha256: "\(GatewayFixture.NewKeyHash.of(Self.otherKey))"
                merchants: ["merchant.com.else.*"]
                operations: [pay, status]
              - name: google
                key_sha256: "\(GatewayFixture.NewKeyHash.of(Self.googleKey))"
                google_pay: { merchants: ["*"] }
                operations: [pay, status]
              - name: backend
                certificate_san: backend.shop.example
                merchants: ["merchant.com.example.*"]
                operations: [pay, status, decrypt]
              - name: outsider
                certificate_sha256: "\(try certificates.other.sha256)"
                merchants: ["merchant.com.else.*"]
                operations: [decrypt]
            log: { level: trace }
            """, to: "c.yaml")
        let configuration = try GatewayConfiguration.load(path: directory.path("c.yaml"), environment: [:])
        let lines = log
        let logger = Logger(label: "test") { _ in
            var captured = CapturedLog(lines: lines)
            captured.logLevel = .trace
            return captured
        }
        store = try SQLitePaymentStore(path: directory.path("payments.sqlite"))
        calls = PaytokendCalls(configuration.paytokend)
        payments = PaymentService(
            store: store, paytokend: calls,
            processors: ProcessorDirectory(
                processors: [
                    ConfiguredProcessor(
                        name: "acquirer", merchants: [MerchantPattern("*")],
                        googlePay: GooglePayAccess(
                            merchants: [MerchantPattern(DecryptingPaytokend.googleMerchant)], authMethods: authMethods),
                        processor: processor)
                ]), deadline: .seconds(25),
            accountNumberKey: try .loaded(from: configuration.payments?.accountNumberKey, logger: logger),
            configuration,
            logger: logger)
        listener = try await GatewayAssembly.make(
            configuration, logger: logger, routes: payments.routes, adminRoutes: payments.adminRoutes,
            instruments: [payments.metrics, calls.metrics]
        ).listen()
    }

    /// Sends a request over TLS with curl.
    ///
    /// - Parameters:
    ///   - body: nil for a GET request.
    ///   - certificate: the name of a client certificate's files, instead of a key.
    func ask(
        _ path: String, _ body: [UInt8]? = nil, type: String = "text/xml", key: String? = Self.key,
        certificate: String? = nil
    ) async throws -> CurlAnswer {
        let port = try requireValue(listener.networkAddresses.first?.port)
        var arguments = ["--cacert", directory.path("ca.pem")]
        if let certificate {
            arguments += [
                "--cert", directory.path("\(certificate).pem"), "--key", directory.path("\(certificate).key"),
            ]
        } else if let key {
            arguments += ["--header", "Authorization: Bearer \(key)"]
        }
        return try await Curl.request(
            path, socket: nil, origin: "https://127.0.0.1:\(port)", body: body, contentType: type,
            arguments: arguments, waitsForTurn: false)
    }

    func stop() async {
        await listener.shutdown(grace: .seconds(20))
        calls.close()
        await store.close()
    }
}
