extension RouteTable {
    /// Keys that are made inside a token, and rotations; all on the admin socket.
    static func generation(_ keys: KeyGenerationRoutes, _ rotations: RotationRoutes) -> [Endpoint] {
        [
            Endpoint(
                "POST", "/v1/keys", on: [.admin], role: .admin, bodyLimit: wordsLimit, dryRun: .offered,
                respond: keys.generate),
            Endpoint(
                "POST", "/v1/keys/{key}/csr", on: [.admin], role: .admin, bodyLimit: wordsLimit, dryRun: .offered,
                respond: keys.certificateRequest),
            Endpoint("GET", "/v1/rotations", on: [.admin], role: .monitor, respond: rotations.list),
            Endpoint(
                "POST", "/v1/rotations", on: [.admin], role: .admin, bodyLimit: wordsLimit, dryRun: .offered,
                respond: rotations.start),
            Endpoint(
                "POST", "/v1/rotations/certificate", on: [.admin], role: .admin, bodyLimit: certificateLimit,
                dryRun: .offered, respond: rotations.importCertificate),
            Endpoint("GET", "/v1/rotations/{merchant}", on: [.admin], role: .monitor, respond: rotations.show),
            Endpoint(
                "POST", "/v1/rotations/{merchant}/finish", on: [.admin], role: .admin, bodyLimit: wordsLimit,
                dryRun: .offered, respond: rotations.finish),
        ]
    }

    /// A few names.
    private static let wordsLimit = 4096
    /// A certificate in base64.
    private static let certificateLimit = 65_536
}
