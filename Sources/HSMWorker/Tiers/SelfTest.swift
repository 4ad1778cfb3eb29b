import PKCS11

/// How a self-test went wrong.
struct SelfTestFailure: Error, CustomStringConvertible {
    /// A fragment of a sentence for a person.
    let description: String
    /// The token's own error; nil when what came out was wrong.
    let call: CallError?

    init(_ description: String, _ call: CallError? = nil) {
        self.description = description
        self.call = call
    }
}

extension RestorationTier {
    /// Opens one transaction that is known to be good: whether the token works, and nothing else.
    func openingFailure(with key: borrowing PrivateKeyEntry, in session: inout Session) -> SelfTestFailure? {
        do throws(UnsuitableKey) {
            return failureToOpen(try TestTransaction(for: key.publicKey), with: key, in: &session)
        } catch {
            return SelfTestFailure(error.reason)
        }
    }

    /// Opens a test transaction, and refuses one whose tag is wrong.
    /// - Returns: nil when both went as they must, else what did not.
    func selfTestFailure(with key: borrowing PrivateKeyEntry, in session: inout Session) -> SelfTestFailure? {
        let transaction: TestTransaction
        do throws(UnsuitableKey) {
            transaction = try TestTransaction(for: key.publicKey)
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

    /// The same with a test key pair, and what only a key that is known throughout can show.
    func selfTestFailure(with key: borrowing TestKeyPair, _ entry: PrivateKeyEntry, in session: inout Session)
        -> SelfTestFailure?
    {
        if let failure = selfTestFailure(with: entry, in: &session) { return failure }
        guard scheme == .ecV1, key.isKnown, let ephemeral = KnownKeyPair.ephemeralForLeadingZero else { return nil }
        do throws(UnsuitableKey) {
            let transaction = try TestTransaction(for: entry.publicKey, ephemeral: ephemeral)
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
            case .token(let call), .refused(.some(let call)): SelfTestFailure(call.description, call)
            case .input, .refused(nil): SelfTestFailure("a well-formed transaction was not opened")
            }
        }
    }
}
