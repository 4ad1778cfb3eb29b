import Foundation
import TestSupport
import Testing
import TokenForge

/// The daemon's TCP connection to the ledger's server: TLS and name resolution.
@Suite struct LedgerConnectionTests {
    /// Returns a configuration in which `ending` is appended to the ledger's URL.
    private func configuration(_ database: DaemonDatabase, _ ending: String = "") -> DaemonConfiguration {
        var configuration = DaemonConfiguration()
        configuration.database = database
        configuration.database?.url =
            database.server.url(host: "localhost", database.name, user: DaemonDatabase.daemon) + ending
        configuration.ledger = ["timeout: 2s"]
        return configuration
    }

    @Test("serves with sslmode=verify-full and the right server certificate, and exits with 78 for a wrong one")
    func certificates() async throws {
        let certificates = try await ServerCertificates()
        let server = try await DaemonDatabase.prepared(.onTCP())
        let configuration = configuration(
            try await DaemonDatabase(on: server), "?sslmode=verify-full&sslrootcert=\(certificates.root)")
        try await server.use(.right, of: certificates)
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.metric("paytokend_insecure_settings", "database_tls").isEmpty)
        let encrypted = try await server.sql(
            """
            SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE usename = '\(DaemonDatabase.daemon)'
            """)
        #expect(encrypted == "t")
        // At run time, the daemon refuses a new connection until the server has the right certificate again.
        try await server.use(.expired, of: certificates)
        #expect(try await harness.decrypt(SharedForge.paymentToken()).code == "ledger_unavailable")
        try await server.use(.right, of: certificates)
        try await harness.waitUntilReady()
        #expect(try await harness.stop().status == 0)
        for certificate in [ServerCertificate.expired, .another] {
            try await server.use(certificate, of: certificates)
            let refused = try await Program.run(
                Program.built("paytokend"), ["--config", harness.configurationFile])
            #expect(refused.status == 78, "\(certificate): \(refused)")
            #expect(refused.error.contains("TLS with the server fails"), "\(certificate): \(refused)")
        }
    }

    @Test("refuses requests within ledger.timeout while the server's name cannot be resolved, and recovers by itself")
    func hangingResolver() async throws {
        let server = try await DaemonDatabase.prepared(.onTCP())
        let harness = try await DaemonHarness(prepared: configuration(DaemonDatabase(on: server), "?sslmode=disable"))
        let hangs = harness.directory.path("resolver-hangs")
        try await harness.start(environment: [
            "LD_PRELOAD": Program.built("libHangingResolver.so"), "HANGING_RESOLVER": hangs,
        ])
        #expect(try await harness.importMerchant(SharedForge.ecMerchant).status == 0)
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)

        try harness.directory.write("", to: "resolver-hangs")
        try await server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '\(DaemonDatabase.daemon)'")
        let paymentToken = try SharedForge.paymentToken()
        for _ in 0..<3 {
            let refused = try await harness.decrypt(paymentToken, reference: "r")
            #expect(refused.status == 503 && refused.code == "ledger_unavailable", "\(refused)")
        }
        try await wait(for: "503 from /readyz, for the ledger") {
            let ready = try await Curl.request("/readyz", socket: harness.socket)
            return ready.status == 503 && ready.text.contains("\"component\":\"ledger\"")
        }
        #expect(try await harness.verify(paymentToken).status == 200)
        let unknown = try SharedForge.mint.mint(
            TokenRecipe(merchant: SharedForge.ecMerchant.merchant, deviations: [.unknownPublicKeyHash]))
        #expect(try await harness.decrypt(unknown).code == "unknown_public_key_hash")
        #expect(try await harness.admin("/metrics").status == 200)
        #expect(try await harness.paytokenctl(["status"]).status == 1)

        try FileManager.default.removeItem(atPath: hangs)
        try await harness.waitUntilReady()
        #expect(try await harness.decrypt(paymentToken, reference: "r").status == 200)
        #expect(try await harness.stop().status == 0)
    }

    @Test("stops on request while the server's name cannot be resolved")
    func stopDuringResolution() async throws {
        let server = try await DaemonDatabase.prepared(.onTCP())
        let harness = try await DaemonHarness(prepared: configuration(DaemonDatabase(on: server), "?sslmode=disable"))
        try await harness.start(environment: [
            "LD_PRELOAD": Program.built("libHangingResolver.so"),
            "HANGING_RESOLVER": harness.directory.path("resolver-hangs"),
        ])
        try harness.directory.write("", to: "resolver-hangs")
        try await server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '\(DaemonDatabase.daemon)'")
        #expect(try await harness.stop().status == 0)
    }
}
