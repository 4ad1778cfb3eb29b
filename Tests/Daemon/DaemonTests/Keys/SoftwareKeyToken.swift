import Crypto
import Foundation
import KeyTypes
import Locks
import PaymentToken
import WorkerProtocol

@testable import Daemon

/// An HSM token with merchant keys in software, for EC only. Tests can make its operations fail.
final class SoftwareKeyToken: HSMTokenAdministering {
    enum Fault: Sendable {
        case listing
        case destroying
    }

    private struct State {
        var keys: [(label: String, key: P256.Signing.PrivateKey)] = []
        var faults: Set<Fault> = []
        var beforeKeyUse: (@Sendable () async -> Void)?
    }

    let name: String
    let isServing: Bool
    private let state = Mutex(State())

    init(_ name: String = "primary", isServing: Bool = true) {
        self.name = name
        self.isServing = isServing
    }

    func fail(at fault: Fault) { _ = state.withLock { $0.faults.insert(fault) } }

    /// Makes each later generation of a key and each later signature run `body` first.
    func runBeforeKeyUse(_ body: @escaping @Sendable () async -> Void) { state.withLock { $0.beforeKeyUse = body } }

    var keyCount: Int { state.withLock { $0.keys.count } }

    private static func description(_ label: String, _ key: P256.Signing.PrivateKey) -> KeyDescription {
        let information = Array(key.publicKey.derRepresentation)
        return KeyDescription(
            identifier: PublicKeyHash.of(subjectPublicKeyInfo: information).bytes, label: label, algorithm: .ec,
            subjectPublicKeyInfo: information, certificates: [], isProtected: true, inconsistency: nil)
    }

    func describeKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [KeyDescription] {
        let state = state.withLock { $0 }
        guard !state.faults.contains(.listing) else { throw Self.away }
        return state.keys.map { Self.description($0.label, $0.key) }.filter { $0.identifier == hash.bytes }
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
        let destroyed = state.withLock { state in
            guard !state.faults.contains(.destroying) else { return false }
            state.keys.removeAll { Self.description($0.label, $0.key).identifier == hash.bytes }
            return true
        }
        guard destroyed else { throw Self.away }
    }

    func importPrivateKey(_ request: PrivateKeyImport) async throws(WorkerFailure) { throw Self.away }

    func importCertificate(_ request: CertificateToStore) async throws(WorkerFailure) { throw Self.away }

    private static let away = WorkerFailure(.hsmTokenUnavailable, "The token does not answer.")
}
