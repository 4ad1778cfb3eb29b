import Foundation
import HTTPListener
import NIOSSL
import TLSHandshake
import TestSupport
import Testing

@testable import Gateway

/// A client for merchant sessions, a simulated Apple, and the events that both report.
struct SessionBench {
    let apple: SimulatedApple
    let identities: SoftwareIdentities
    let heard = RecordedSessions()
    let sessions: MerchantSessions

    /// - Parameters:
    ///   - trusts: true to trust the tests' root instead of the system's.
    ///   - deadline: the time limit of a session. The default is long, so that only intentional delays exceed it.
    init(
        _ behaviours: [SimulatedApple.Behaviour] = [.session], certificate: AppleCertificate = .validECDSA,
        versions: ClosedRange<Int> = 2...3, signatureAlgorithms: [SignatureAlgorithm]? = nil,
        identities: SoftwareIdentities? = nil, trusts: Bool = true, deadline: Duration = .seconds(120),
        limits: ConnectionPoolLimits = .init(), now: @escaping @Sendable () -> Date = { Date() }
    ) async throws {
        apple = try await SimulatedApple(
            behaviours, certificate: certificate, versions: versions, signatureAlgorithms: signatureAlgorithms)
        let usual = try await SoftwareIdentities.usual()
        self.identities = identities ?? usual
        sessions = MerchantSessions(
            endpoint: try await Self.endpoint(apple.address, trusts: trusts), identities: self.identities,
            observer: heard, deadline: deadline, limits: limits, now: now)
    }

    static func endpoint(_ address: String, trusts: Bool = true) async throws -> AppleEndpoint {
        var settings = SessionSettings()
        if trusts { settings.trust = [try await SimulatedAppleCertificates.shared.value.root] }
        let server: NetworkAddress = try #require(NetworkAddress(address))
        settings.testServer = server
        return try AppleEndpoint(settings)
    }

    static let request = MerchantSessionRequest(
        merchantIdentifier: SoftwareIdentities.merchantIdentifier, displayName: "Bücher & more", initiative: "web",
        initiativeContext: "shop.example")

    func session(_ request: MerchantSessionRequest = Self.request) async throws -> MerchantSession {
        try await sessions.session(request)
    }

    /// Returns the failure of a request for a session.
    func failure(_ request: MerchantSessionRequest = Self.request) async -> SessionFailure? {
        do {
            _ = try await sessions.session(request)
            return nil
        } catch { return error }
    }
}
