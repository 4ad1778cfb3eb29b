import AuditChain
import Refusals

// What persons do, and the daemon itself, with its records and in the truth.
extension Year {
    /// The daemon starts.
    func begin(_ node: Int, _ now: Int64, _ version: String, afterCrash: Bool = false) async throws {
        nodes[node].isDown = false
        if let place = try await act(node, now, .start(version: AuditText(version))) {
            truth.starts.append(Truth.Life(at: place, version: version, isAfterCrash: afterCrash))
        }
        try await configure(node, now + 40, number: now < start + 20 * Self.day ? 1 : 2, isReload: false)
    }

    /// - Parameter number: of the configuration file; nil for one that is refused.
    func configure(_ node: Int, _ now: Int64, number: Int?, isReload: Bool) async throws {
        let file = number.map { AuditDigest.of("\(seed) configuration \($0) of \(nodes[node].name)".utf8) }
        let event = isReload ? AuditEvent.configurationReload(file: file) : .configurationLoad(file: file ?? .zero)
        guard let place = try await act(node, now, event, file == nil ? .refused(.malformedRequest) : .ok) else {
            return
        }
        truth.configurations.append(Truth.Configuration(at: place, fileSha256: file?.hex, isReload: isReload))
    }

    // MARK: Keys

    /// A merchant's next key and the request for its certificate.
    func generate(_ node: Int, _ now: Int64, _ merchant: Int, by person: Person) async throws {
        let standing = merchants[merchant]
        let key = MerchantKey(
            label: "key \(keys.count)", merchant: standing.identifier, algorithm: standing.algorithm, seed: seed)
        keys.append(key)
        if let place = try await act(node, now, .keyGenerate, by: person, key, usesToken: true) {
            key.life.created = Truth.Step(at: place, by: person.rawValue)
        }
        try await act(node, now + 60_000, .csrCreate, by: person, key)
    }

    /// The certificate of the merchant's newest key comes in: from now on that is the one in use.
    func activate(_ node: Int, _ now: Int64, _ merchant: Int, by person: Person) async throws {
        let standing = merchants[merchant]
        guard let key = keys.last(where: { $0.merchant == standing.identifier && $0.use == "processing" }) else {
            throw YearFailure("\(standing.identifier) has no key to activate")
        }
        key.state = .active
        let certificate = AuditDigest.of("certificate of \(key.hash.hex)".utf8)
        let place = try await act(node, now, .certificateImport(certificate: certificate), by: person, key)
        if let place {
            key.life.activated = Truth.Step(at: place, by: person.rawValue)
            standing.current?.life.superseded = Truth.Step(
                at: place, by: person.rawValue, successor: key.hash.base64)
        }
        standing.current?.supersededAt = now
        merchants[merchant].former = standing.current
        merchants[merchant].current = key
    }
}
