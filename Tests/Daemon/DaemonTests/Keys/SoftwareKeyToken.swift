import Crypto
import Foundation
import KeyTypes
import Locks
import PaymentToken
import WorkerProtocol

@testable import Daemon

/// An HSM token with merchant keys in software, for EC only. Tests can make its operations fail. It keeps no certificates.
/// The sealed private key of an import is the private key itself.
final class SoftwareKeyToken: HSMTokenAdministering {
    enum Fault: Sendable {
        case listing
        case destroying
    }

    private struct State {
        var keys: [(label: String, key: P256.Signing.PrivateKey)] = []
        var faults: Set<Fault> = []
        var beforeKeyUse: (@Sendable () async -> Void)?
        var beforeDestruction: (@Sendable () async -> Void)?
        var searches = 0
        /// The number of certificates that it was given; nil if it takes none.
        var certificates: Int?
        /// The descriptions that it returns instead of those of its keys; nil for these.
        var shown: [KeyDescription]?

        var descriptions: [KeyDescription] {
            shown ?? keys.map { SoftwareKeyToken.description($0.label, $0.key) }
        }
    }

    let name: String
    let isServing: Bool
    private let state = Mutex(State())

    init(_ name: String = "primary", isServing: Bool = true) {
        self.name = name
        self.isServing = isServing
    }

    func fail(at fault: Fault) { _ = state.withLock { $0.faults.insert(fault) } }
    func recover() { state.withLock { $0.faults = [] } }

    /// Makes each later generation or import of a key and each later signature run `body` first.
    func runBeforeKeyUse(_ body: @escaping @Sendable () async -> Void) { state.withLock { $0.beforeKeyUse = body } }

    /// Makes the next destruction of a key run `body` first.
    func runBeforeDestruction(_ body: @escaping @Sendable () async -> Void) {
        state.withLock { $0.beforeDestruction = body }
    }

    var keyCount: Int { state.withLock { $0.keys.count } }

    /// The number of searches for a key.
    var searchCount: Int { state.withLock { $0.searches } }

    var certificateCount: Int? { state.withLock { $0.certificates } }

    func acceptCertificates() { state.withLock { $0.certificates = 0 } }

    /// Adds a key as the vendor's cloning does.
    func add(_ key: P256.Signing.PrivateKey, of merchant: String) { state.withLock { $0.keys.append((merchant, key)) } }

    /// Makes it show these keys from now on.
    func show(_ descriptions: [KeyDescription]) { state.withLock { $0.shown = descriptions } }

    /// All keys that it shows.
    var descriptions: [KeyDescription] { state.withLock { $0.descriptions } }

    private static func description(_ label: String, _ key: P256.Signing.PrivateKey) -> KeyDescription {
        let information = Array(key.publicKey.derRepresentation)
        return KeyDescription(
            identifier: PublicKeyHash.of(subjectPublicKeyInfo: information).bytes, label: label, algorithm: .ec,
            subjectPublicKeyInfo: information, certificates: [], isProtected: true, inconsistency: nil)
    }

    func describeKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [KeyDescription] {
        let state = state.withLock { state in
            state.searches += 1
            return state
        }
        guard !state.faults.contains(.listing) else { throw Self.away }
        return state.descriptions.filter { $0.identifier == hash.bytes }
    }

    func generateKey(
        _ algorithm: KeyAlgorithm, use: KeyUse, merchantIdentifier: String, known: Set<[UInt8]>
    ) async throws(WorkerFailure) -> KeyDescription {
        await state.withLock { $0.beforeKeyUse }?()
        let key = P256.Signing.PrivateKey()
        state.withLock { $0.keys.append((merchantIdentifier, key)) }
        return Self.description(merchantIdentifier, key)
    }

    func signRequest(_ information: [UInt8], publicKeyHash: [UInt8]) async throws(WorkerFailure) -> [UInt8] {
        await state.withLock { $0.beforeKeyUse }?()
        let key = state.withLock { state in
            state.keys.first { Self.description($0.label, $0.key).identifier == publicKeyHash }?.key
        }
        guard let signature = try? key?.signature(for: Data(information)) else { throw Self.away }
        return Array(signature.derRepresentation)
    }

    func destroyKey(_ hash: PublicKeyHash) async throws(WorkerFailure) {
        await state.withLock { state in
            defer { state.beforeDestruction = nil }
            return state.beforeDestruction
        }?()
        let destroyed = state.withLock { state in
            guard !state.faults.contains(.destroying) else { return false }
            state.keys.removeAll { Self.description($0.label, $0.key).identifier == hash.bytes }
            return true
        }
        guard destroyed else { throw Self.away }
    }

    func importPrivateKey(_ request: PrivateKeyImport) async throws(WorkerFailure) {
        guard let key = try? P256.Signing.PrivateKey(rawRepresentation: request.sealedPrivateKey) else {
            throw Self.away
        }
        await state.withLock { $0.beforeKeyUse }?()
        state.withLock { state in
            let isNew = !state.keys.contains { $0.key.rawRepresentation == key.rawRepresentation }
            if isNew { state.keys.append((request.merchantIdentifier, key)) }
        }
    }

    func importCertificate(_ request: CertificateToStore) async throws(WorkerFailure) {
        let isTaken = state.withLock { state in
            state.certificates = state.certificates.map { $0 + 1 }
            return state.certificates != nil
        }
        guard isTaken else { throw Self.away }
    }

    private static let away = WorkerFailure(.hsmTokenUnavailable, "The token does not answer.")
}
