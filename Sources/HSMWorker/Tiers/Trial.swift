import PKCS11

/// How a trial went wrong.
struct TrialFailure: Error, CustomStringConvertible {
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
    func answersCanary(with key: borrowing PrivateKeyEntry, in session: inout Session) -> TrialFailure? {
        do throws(UnsuitableKey) {
            return failsToOpen(try TrialTransaction(for: key.publicKey), with: key, in: &session)
        } catch {
            return TrialFailure(error.reason)
        }
    }

    /// Opens a trial transaction, and refuses one whose tag is wrong.
    /// - Returns: nil when both went as they must, else what did not.
    func failsTrial(with key: borrowing PrivateKeyEntry, in session: inout Session) -> TrialFailure? {
        let trial: TrialTransaction
        do throws(UnsuitableKey) {
            trial = try TrialTransaction(for: key.publicKey)
        } catch {
            return TrialFailure(error.reason)
        }
        if let failure = failsToOpen(trial, with: key, in: &session) { return failure }
        var forged = trial.input
        forged.ciphertext[forged.ciphertext.count - 1] ^= 1
        guard (try? open(forged, with: key, in: &session)) == nil else {
            return TrialFailure("a wrong tag was accepted")
        }
        return nil
    }

    /// The same with a throwaway key, and what only a key that is known throughout can show.
    func failsTrial(with key: borrowing ThrowawayKey, _ entry: PrivateKeyEntry, in session: inout Session)
        -> TrialFailure?
    {
        if let failure = failsTrial(with: entry, in: &session) { return failure }
        guard scheme == .ecV1, key.isKnown, let ephemeral = KnownAnswerKey.ephemeralForLeadingZero else { return nil }
        do throws(UnsuitableKey) {
            let trial = try TrialTransaction(for: entry.publicKey, ephemeral: ephemeral)
            return failsToOpen(trial, with: entry, in: &session).map {
                TrialFailure("a shared secret that begins with a zero byte is cut short: \($0)", $0.call)
            }
        } catch {
            return TrialFailure(error.reason)
        }
    }

    private func failsToOpen(
        _ trial: TrialTransaction, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) -> TrialFailure? {
        do throws(RestorationError) {
            guard try open(trial.input, with: key, in: &session) == trial.plaintext else {
                return TrialFailure("another plaintext came out")
            }
            return nil
        } catch {
            return switch error {
            case .token(let call), .refused(.some(let call)): TrialFailure(call.description, call)
            case .input, .refused(nil): TrialFailure("a well-formed transaction was not opened")
            }
        }
    }
}
