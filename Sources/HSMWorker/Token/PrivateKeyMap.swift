import PKCS11
import Synchronization

/// The private keys that may be used, by publicKeyHash. Built from listings, so that a decryption asks the token for
/// nothing but the operation: a search among 500 keys takes SoftHSM 23 ms.
final class PrivateKeyMap: Sendable {
    private let entries = Mutex<[[UInt8]: PrivateKeyEntry]>([:])

    subscript(publicKeyHash: [UInt8]) -> PrivateKeyEntry? {
        entries.withLock { $0[publicKeyHash] }
    }

    var all: [[UInt8]: PrivateKeyEntry] { entries.withLock { $0 } }

    func insert(_ entry: PrivateKeyEntry) {
        entries.withLock { $0[entry.publicKey.publicKeyHash] = entry }
    }

    @discardableResult
    func remove(_ publicKeyHash: [UInt8]) -> PrivateKeyEntry? {
        entries.withLock { $0.removeValue(forKey: publicKeyHash) }
    }

    func replace(with new: [[UInt8]: PrivateKeyEntry]) {
        entries.withLock { $0 = new }
    }
}
