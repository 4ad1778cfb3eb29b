import Crypto
import DaemonAPI
import Foundation
import NIOCore
import NIOSSL
import OutgoingConnections
import PortalRequests
import PortalSimulator
import TestSupport
import Testing
import TokenForge

@testable import Outbound

/// The writes, over TLS, to a simulator of Apple's API: what is reported of each answer, and of each lost one.
@Suite struct AppStoreConnectTests {
    private static let names = (issuer: "57246542-96fe-1a63-e053-0824d011072a", keyId: "2X9R4HXF34")
    private static let resource = "A1B2C3D4E5"

    private let key = P256.Signing.PrivateKey()
    private let files: FreshDirectory
    private let simulator: PortalSimulator
    private let merchant: ForgedMerchant

    init() async throws {
        files = try FreshDirectory()
        try await files.writeServerCertificate(for: PortalSimulator.host)
        simulator = try await PortalSimulator(
            key: .init(issuer: Self.names.issuer, keyId: Self.names.keyId, publicKey: key.publicKey),
            certificate: files.path("server.crt"), privateKey: files.path("server.key"),
            authority: SharedForge.authority)
        merchant = try SharedForge.ecMerchant
        set([])
    }

    private func set(_ certificates: [PortalSimulator.Certificate]) {
        simulator.set([
            .init(id: Self.resource, identifier: merchant.merchant.identifier, certificates: certificates)
        ])
    }

    private var certificates: [PortalSimulator.Certificate] { simulator.merchants[0].certificates }

    /// A certificate of another key, which wallets use.
    private func used(_ id: String = "OLD1") throws -> PortalSimulator.Certificate {
        let other = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: merchant.merchant.identifier))
        return .init(id: id, content: other.certificate, isActivated: true)
    }

    private func client(_ test: String? = nil, trusts: Bool = true) throws -> AppStoreConnect {
        let yaml = try files.write(
            """
            app_store_connect: { test_server: "\(test ?? simulator.address)", trust: [\(trusts ? "root.crt" : "")] }

            """, to: "outbound-\(UInt64.random(in: 0 ... .max)).yaml")
        return try AppStoreConnect(OutboundConfiguration.load(path: yaml, environment: [:]).appStoreConnect)
    }

    private func token(_ request: PortalRequest, scope: TokenScope? = nil) throws -> String {
        let right = try #require(TokenRight(request.kind, of: request.name, scope: scope))
        let name = try #require(PortalKeyName(issuer: Self.names.issuer, keyId: Self.names.keyId))
        let token = JSONWebToken(name, for: right, now: Int(Date().timeIntervalSince1970))
        let signature = try key.signature(for: Data(token.signingInput))
        return String(decoding: token.signed(Array(signature.rawRepresentation)), as: UTF8.self)
    }

    /// Makes a request as the work loop does, and returns its report.
    private func report(
        _ request: PortalRequest, by client: AppStoreConnect? = nil, token: String? = nil,
        within time: Duration = .seconds(60)
    ) async throws -> PortalReport {
        let client = try client ?? self.client()
        let token = try token ?? self.token(request)
        do throws(HTTPFault) {
            return try await client.send(request, token: token, before: .now + time)
        } catch {
            return PortalAnswerReader.report(of: error)
        }
    }

    private func creation(_ type: CertificateType = .applePay) throws -> PortalRequest {
        try #require(
            PortalRequest(
                .createCertificate, of: Self.resource,
                new: NewCertificate(type: type, csr: merchant.key.certificateRequest())))
    }

    private static func activation(_ id: String) throws -> PortalRequest {
        try #require(PortalRequest(.activateCertificate, of: id))
    }

    private static func revocation(_ id: String) throws -> PortalRequest {
        try #require(PortalRequest(.revokeCertificate, of: id))
    }

    @Test("creates a certificate next to the one in use, activates it, and revokes the old one")
    func whole() async throws {
        set([try used()])
        let created = try await report(creation())
        let certificate = try #require(created.certificates?.first)
        #expect(created.status == 201 && certificate.activated == false && certificate.type == "APPLE_PAY")
        #expect(created.requestsRemaining == 3400)
        let content = try #require(Data(base64Encoded: certificate.content))
        #expect(try Merchant(certificate: Array(content)).publicKeyHash == merchant.merchant.publicKeyHash)
        #expect(simulator.inUse(merchant.merchant.identifier).map(\.id) == ["OLD1"])

        let activated = try await report(Self.activation(certificate.id))
        #expect(activated.status == 200 && activated.certificates?.first?.activated == true)
        #expect(simulator.inUse(merchant.merchant.identifier).map(\.id) == [certificate.id])
        #expect(try await report(Self.revocation("OLD1")) == PortalReport(status: 204, requestsRemaining: 3400))
        #expect(certificates.map(\.id) == [certificate.id])
        #expect(simulator.requests.map(\.method) == ["POST", "PATCH", "DELETE"])
        #expect(simulator.requests.allSatisfy { $0.scope == nil && $0.lifetime == 100 })
    }

    @Test("reports a certificate that activated itself because none was in use")
    func selfActivated() async throws {
        let created = try await report(creation())
        #expect(created.status == 201 && created.certificates?.first?.activated == true)
    }

    @Test("reports Apple's refusals with their status and code")
    func refusals() async throws {
        set([try used(), try used("OLD2")])
        #expect(try await report(creation()).code == "ENTITY_ERROR.ATTRIBUTE.INVALID")
        set([])
        // The key is P-256, and the type is for RSA keys.
        #expect(try await report(creation(.applePayRSA)).status == 409)
        #expect(
            try await report(Self.activation("C9"))
                == PortalReport(status: 404, code: "NOT_FOUND", requestsRemaining: 3400))
        #expect(try await report(Self.revocation("C9")).status == 404)
        #expect(certificates.isEmpty)
        // A token with a scope permits no write.
        let read = try #require(PortalRequest(.listCertificates, of: Self.resource))
        let scoped = try await report(creation(), token: token(read, scope: .unversioned))
        #expect(scoped.status == 401 && scoped.code == "NOT_AUTHORIZED")
        simulator.change { $0.clockSkew = -30 }
        #expect(try await report(creation()).status == 401)
        simulator.change { ($0.clockSkew, $0.requestLimit) = (0, 0) }
        let limited = try await report(creation())
        #expect(limited.status == 429 && limited.code == "RATE_LIMIT_EXCEEDED" && limited.requestsRemaining == 0)
        #expect(certificates.isEmpty)
    }

    @Test("reports 406 in plain text, 429 and 500 by their status, and follows no redirect")
    func interruptions() async throws {
        let elsewhere = try await PortalSimulator(
            key: .init(issuer: Self.names.issuer, keyId: Self.names.keyId, publicKey: key.publicKey),
            certificate: files.path("server.crt"), privateKey: files.path("server.key"),
            authority: SharedForge.authority)
        for (interruption, status) in [
            (.answer(status: 406, text: "Not Acceptable"), 406), (.answer(status: 429, text: ""), 429),
            (.answer(status: 500, text: "{"), 500),
            (.redirect(to: "https://\(elsewhere.address)/v1/certificates"), 307),
        ] as [(PortalSimulator.Interruption, Int)] {
            simulator.change { $0.interruptions = [interruption] }
            let report = try await report(creation())
            #expect(report == PortalReport(status: status, requestsRemaining: 3400), "\(interruption)")
        }
        #expect(certificates.isEmpty && elsewhere.requests.isEmpty && simulator.requests.count == 4)
    }

    @Test(
        "reports a lost answer as lost, once, whether the request had its effect or not",
        arguments: [PortalSimulator.Interruption.lostBefore, .lostAfter, .cutShort])
    func lost(_ interruption: PortalSimulator.Interruption) async throws {
        simulator.change { $0.interruptions = [interruption] }
        let report = try await report(creation())
        #expect(report == PortalReport(fault: .connectionLost) && !report.isUnsent)
        #expect(simulator.requests.count == 1)
        #expect(certificates.count == (interruption == .lostBefore ? 0 : 1))
        #expect(
            simulator.certificateCount(of: merchant.merchant.publicKeyHash) == (interruption == .lostBefore ? 0 : 1))
    }

    @Test("reports that nothing was sent if no connection, no verified server, or no time was there")
    func unsent() async throws {
        let untrusted = try await report(creation(), by: client(trusts: false))
        #expect(untrusted == PortalReport(fault: .handshakeFailed) && untrusted.isUnsent)
        let late = try await report(creation(), within: .zero)
        #expect(late == PortalReport(fault: .notConnected) && late.isUnsent)
        let address = simulator.address
        await simulator.stop()
        let refused = try await report(creation(), by: client(address))
        #expect(refused == PortalReport(fault: .notConnected) && refused.isUnsent)
        #expect(simulator.requests.isEmpty)
    }

    @Test("wallets use both certificates for a while after an activation, and late ones the old certificate after that")
    func wallets() throws {
        set([try used(), .init(id: "NEW1", content: merchant.certificate, isActivated: false)])
        simulator.change { $0.lateSeconds = 3600 }
        try simulator.activate("NEW1")
        #expect(simulator.inUse(merchant.merchant.identifier).map(\.id) == ["NEW1"])
        #expect(simulator.late.map(\.id) == ["OLD1"])
        simulator.change { ($0.mixedSeconds, $0.lateSeconds) = (3600, 0) }
        try simulator.activate("OLD1")
        #expect(simulator.inUse(merchant.merchant.identifier).map(\.id) == ["OLD1", "NEW1"])
        #expect(simulator.late.map(\.id) == ["OLD1"])
    }

    @Test("people act in the portal directly before a request, and the portal tells their changes from the API's")
    func acts() async throws {
        set([try used()])
        simulator.change {
            $0.maximumCertificates = 3
            $0.acts = [("POST", .createOther(merchant: merchant.merchant.identifier, type: "APPLE_PAY"))]
        }
        let report = try await report(creation())
        #expect(report.status == 201)
        let changes = simulator.changes
        #expect(changes.map(\.kind) == [.created, .created] && changes.map(\.isByPerson) == [true, false])
        #expect(changes.map { $0.publicKeyHash == merchant.merchant.publicKeyHash } == [false, true])
        #expect(certificates.map(\.isActivated) == [true, false, false])
        try simulator.revoke(changes[0].id)
        #expect(simulator.changes.map(\.kind) == [.created, .created, .revoked])
    }

    @Test(
        "does the same whatever Apple's undocumented choices are",
        arguments: [UInt64.random(in: 0...999_999), .random(in: 0...999_999), 1, 2, 3, 4])
    func drawn(_ seed: UInt64) async throws {
        print("the portal's behaviour is that of the seed \(seed)")
        simulator.draw(seed: seed)
        simulator.change { $0.clockSkew = 0 }
        set([try used()])
        for _ in 0..<5 {
            let before = simulator.certificateCount(of: merchant.merchant.publicKeyHash)
            let report = try await report(creation())
            let issued = simulator.certificateCount(of: merchant.merchant.publicKeyHash) - before
            switch report.status {
            case 201?: #expect(issued == 1 && report.certificates?.count == 1, "seed \(seed)")
            case let status?: #expect(issued == 0 && status >= 400, "seed \(seed)")
            case nil: #expect(!report.isUnsent && issued <= 1, "seed \(seed)")
            }
        }
    }
}
