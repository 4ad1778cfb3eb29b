import TestSupport
import Testing

@testable import Gateway

@Suite("Descriptors for connections in both directions")
struct DescriptorSharesTests {
    private func configuration(_ sections: String, operations: String) throws -> GatewayConfiguration {
        let directory = try FreshDirectory()
        let clients = GatewayConfigurationTests.minimum.replacing("[session]", with: operations)
        try directory.write(
            clients + "paytokend: { max_connections: 200 }\nlimits: { max_payments_per_client: 300 }\n" + sections,
            to: "c.yaml")
        return try GatewayConfiguration.load(path: directory.path("c.yaml"), environment: [:])
    }

    @Test("reserves descriptors for its own outgoing connections as well as for its clients")
    func outgoing() throws {
        let sessions = try configuration("", operations: "[session]")
        // Of 2,048 descriptors, 256 are kept for other uses, 201 for paytokend, 66 for Apple's host, and 64 for name
        // servers.
        #expect(sessions.connections(under: 2048) == 1024)
        #expect(sessions.connections(under: 1024) == 1024 - 256 - 201 - 66 - 64)
        let paying = try configuration(
            "store: { url: \"sqlite:p.sqlite\" }\nprocessors: [{ name: s, kind: simulator, url: \"unix:/s\", merchants: [\"*\"] }]\n",
            operations: "[session, pay]")
        // Payments need 100 more descriptors for status requests, and one for the submission of each payment in
        // progress.
        #expect(paying.connections(under: 1600) == 1600 - 256 - 201 - 66 - 64 - 100 - 300)
        #expect(paying.connections(under: 1024) == (1024 - 256 - 201 - 66 - 64 - 100) / 2)
        #expect(paying.connections(under: 65_536) == 1024)
    }
}
