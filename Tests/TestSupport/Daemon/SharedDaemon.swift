/// One daemon with an EC and an RSA merchant for all tests that only send requests: starting one takes a while.
public enum SharedDaemon {
    private static let started = Task {
        var configuration = DaemonConfiguration()
        configuration.listener = ["max_connections: 512", "max_connections_per_uid: 512"]
        return try await DaemonHarness(
            configuration, merchants: [SharedForge.ecMerchant, SharedForge.rsaMerchant])
    }

    public static var harness: DaemonHarness {
        get async throws { try await started.value }
    }
}
