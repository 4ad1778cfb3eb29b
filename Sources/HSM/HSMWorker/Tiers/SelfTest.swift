import Encodings
import KeyTesting
import PKCS11
import WorkerProtocol

/// The fault that a self-test found.
struct SelfTestFailure: Error, CustomStringConvertible {
    /// Part of a sentence for an operator.
    let description: String
    /// The call that failed; nil if all calls succeeded but their result was wrong.
    let call: CallError?

    init(_ description: String, _ call: CallError? = nil) {
        self.description = description
        self.call = call
    }

    /// Makes a test signature.
    /// - Parameter sign: Signs a message and verifies the signature. Returns nil if it does not verify.
    /// - Returns: nil if the signature is valid, otherwise the fault.
    static func ofSignature(_ sign: () throws(CallError) -> [UInt8]?) -> SelfTestFailure? {
        do throws(CallError) {
            return try sign() == nil ? SelfTestFailure("a signature that does not verify") : nil
        } catch {
            return SelfTestFailure(error.description, error)
        }
    }

    /// Returns a new message without meaning, so that its signature has no other use.
    static func messageToSign() -> [UInt8] {
        Array("paytokend tests this key: ".utf8) + (0..<32).map { _ in UInt8.random(in: .min ... .max) }
    }
}

extension RestorationTier {
    /// Opens one transaction that is known to be good.
    /// - Returns: nil if it opened, otherwise the fault.
    func openingFailure(with key: borrowing PrivateKeyEntry, in session: inout Session) -> SelfTestFailure? {
        do throws(UnsuitableKey) {
            return failureToOpen(try TestTransaction(for: key.publicKey, scheme), with: key, in: &session)
        } catch {
            return SelfTestFailure(error.reason)
        }
    }

    /// Opens a test transaction, and checks that one with a wrong tag is refused.
    /// - Returns: nil if both succeeded, otherwise the fault.
    func selfTestFailure(with key: borrowing PrivateKeyEntry, in session: inout Session) -> SelfTestFailure? {
        let transaction: TestTransaction
        do throws(UnsuitableKey) {
            transaction = try TestTransaction(for: key.publicKey, scheme)
        } catch {
            return SelfTestFailure(error.reason)
        }
        if let failure = failureToOpen(transaction, with: key, in: &session) { return failure }
        var forged = transaction.input
        forged.ciphertext[forged.ciphertext.count - 1] ^= 1
        guard (try? open(forged, with: key, in: &session)) == nil else {
            return SelfTestFailure("a wrong tag was accepted")
        }
        return nil
    }

    /// Opens a test transaction with a test key pair, and checks that one with a wrong tag is refused. If the key pair
    /// is the published EC pair, also tests a shared secret that begins with a zero byte.
    func selfTestFailure(with key: borrowing TestKeyPair, in session: inout Session) -> SelfTestFailure? {
        let entry = key.entry
        if let failure = selfTestFailure(with: entry, in: &session) { return failure }
        guard scheme.algorithm == .ec, key.isKnown, let ephemeral = KnownKeyPair.ephemeralForLeadingZero else {
            return nil
        }
        do throws(UnsuitableKey) {
            let transaction = try TestTransaction(for: entry.publicKey, scheme, ephemeral: ephemeral)
            return failureToOpen(transaction, with: entry, in: &session).map {
                SelfTestFailure("a shared secret that begins with a zero byte is cut short: \($0)", $0.call)
            }
        } catch {
            return SelfTestFailure(error.reason)
        }
    }

    private func failureToOpen(
        _ transaction: TestTransaction, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) -> SelfTestFailure? {
        do throws(RestorationError) {
            guard try open(transaction.input, with: key, in: &session) == transaction.plaintext else {
                return SelfTestFailure("another plaintext came out")
            }
            return nil
        } catch {
            return switch error {
            case .hsmToken(let call), .refused(.some(let call)): SelfTestFailure(call.description, call)
            case .input, .refused(nil): SelfTestFailure("a well-formed transaction was not opened")
            }
        }
    }
}
