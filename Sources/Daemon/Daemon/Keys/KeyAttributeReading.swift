import AuditChain
import DaemonAPI
import FairShares
import PaymentToken
import WorkerProtocol
import WorkerSupervision

/// An HSM token as a source of private keys' attributes.
protocol KeyAttributeSource: Sendable {
    var name: String { get }
    /// True while a worker has the HSM token open and accepts calls.
    var isServing: Bool { get }
    /// The HSM token's description of itself; nil while no worker has it open.
    var openDescription: HSMTokenDescription? { get }
    /// Returns the current attributes of the private keys with this CKA_ID; an empty array if the HSM token shows none.
    func attributes(of hash: PublicKeyHash) async throws(WorkerFailure) -> [PrivateKeyAttributes]
}

extension HSMToken: KeyAttributeSource {}

/// Reads a key's current attributes from the HSM tokens that show the key.
///
/// Only one key is read at a time. In some HSM tokens a search reads every object, so several concurrent reads could
/// occupy most session slots, and payments would have to wait for them.
struct KeyAttributeReading: Sendable {
    let hsmTokens: [any KeyAttributeSource]
    private let lock = AsyncLock()

    init(_ hsmTokens: [any KeyAttributeSource]) {
        self.hsmTokens = hsmTokens
    }

    /// Reads the attributes of one key.
    /// - Parameter names: the configured names of the HSM tokens to read.
    /// - Returns: one element for each private key with this CKA_ID, and one for each HSM token that shows none or
    ///   cannot be read. The elements are in the configuration's order of the HSM tokens.
    func attributes(of hash: PublicKeyHash, in names: [String]) async -> [KeyAttributes] {
        let asked = hsmTokens.filter { names.contains($0.name) }
        await lock.acquire()
        defer { lock.release() }
        return await withTaskGroup(of: (Int, [KeyAttributes]).self) { group in
            for (number, hsmToken) in asked.enumerated() {
                group.addTask { (number, await Self.attributes(of: hash, in: hsmToken)) }
            }
            var found = [[KeyAttributes]](repeating: [], count: asked.count)
            for await (number, attributes) in group { found[number] = attributes }
            return found.flatMap(\.self)
        }
    }

    /// Returns the attributes of the private keys with this CKA_ID in one HSM token; an empty array if it shows none.
    func keys(
        _ hash: PublicKeyHash, in hsmToken: any KeyAttributeSource
    ) async throws(WorkerFailure) -> [PrivateKeyAttributes] {
        await lock.acquire()
        defer { lock.release() }
        return try await hsmToken.attributes(of: hash)
    }

    private static func attributes(
        of hash: PublicKeyHash, in hsmToken: any KeyAttributeSource
    ) async -> [KeyAttributes] {
        guard hsmToken.isServing else {
            return [KeyAttributes(token: hsmToken.name, message: "It is not open; GET /v1/status says why.")]
        }
        let keys: [PrivateKeyAttributes]
        do throws(WorkerFailure) {
            keys = try await hsmToken.attributes(of: hash)
        } catch {
            return [KeyAttributes(token: hsmToken.name, message: error.message)]
        }
        guard !keys.isEmpty else {
            let absence = KeyAttributes.Values(
                shortcomings: ["The HSM token shows no private key with this CKA_ID now."])
            return [KeyAttributes(token: hsmToken.name, absence)]
        }
        return keys.map { key in
            var values = KeyAttributes.Values(key)
            if keys.count > 1 {
                values.shortcomings.append(
                    "The HSM token shows \(keys.count) private keys with this CKA_ID: a copy was made.")
            }
            return KeyAttributes(token: hsmToken.name, values)
        }
    }
}

extension KeyAttributes.Values {
    init(_ key: PrivateKeyAttributes) {
        self.init(
            sensitive: key.sensitive, extractable: key.extractable, alwaysSensitive: key.alwaysSensitive,
            neverExtractable: key.neverExtractable, local: key.local, private: key.private, modifiable: key.modifiable,
            uses: key.permittedUses.map(\.rawValue), strength: key.strength, shortcomings: key.shortcomings)
    }
}

extension PrivateKeyAttributes {
    /// The operations that the HSM token permits, in the order of the API.
    var permittedUses: [RecordedKeyAttributes.Use] {
        let uses: [(RecordedKeyAttributes.Use, Bool?)] = [
            (.derive, derive), (.decrypt, decrypt), (.unwrap, unwrap), (.sign, sign),
        ]
        return uses.filter { $0.1 == true }.map(\.0)
    }

    fileprivate var strength: String? {
        guard let algorithm, let bits else { return nil }
        return algorithm == .ec ? "P-\(bits)" : "RSA-\(bits)"
    }

    /// A sentence for each attribute that does not have the required value. For an imported key, the HSM token
    /// correctly reports false for CKA_ALWAYS_SENSITIVE and CKA_NEVER_EXTRACTABLE (PKCS#11 v2.40 base §4.9). These two
    /// are therefore required only if CKA_LOCAL is true.
    fileprivate var shortcomings: [String] {
        var sentences: [String] = []
        func expect(_ value: Bool?, _ wanted: Bool, _ name: String, _ consequence: String) {
            switch value {
            case wanted: break
            case nil: sentences.append("The HSM token does not report \(name).")
            default: sentences.append("\(name) is \(!wanted): \(consequence).")
            }
        }
        expect(sensitive, true, "CKA_SENSITIVE", "the HSM token gives the private key's value to anyone with the PIN")
        expect(
            extractable, false, "CKA_EXTRACTABLE",
            "anyone with the PIN can wrap the private key and extract it from the HSM token")
        expect(self.private, true, "CKA_PRIVATE", "the private key is shown without a login")
        expect(token, true, "CKA_TOKEN", "the HSM token does not keep the private key")
        if local == true {
            expect(
                alwaysSensitive, true, "CKA_ALWAYS_SENSITIVE",
                "the HSM token made the private key, and its value was readable at some time")
            expect(
                neverExtractable, true, "CKA_NEVER_EXTRACTABLE",
                "the HSM token made the private key, and it could be extracted at some time")
        }
        return sentences
    }
}
