import PKCS11
import WorkerProtocol

extension OpenToken {
    /// Restores one transaction's key and opens its data.
    func decrypt(
        _ input: Decryption, in session: inout Session
    ) throws(WorkerFailure) -> (plaintext: [UInt8], tier: ProtectionTier) {
        guard let tier = tiers[input.scheme] else {
            throw WorkerFailure(.notSupported, "The token cannot serve \(input.scheme.name); its status says why.")
        }
        var entry = try entry(for: input)
        do throws(RestorationError) {
            do throws(RestorationError) {
                return (try tier.open(input, with: entry, in: &session), tier.protection)
            } catch {
                // Somebody else's tool may have replaced the object.
                guard case .token(let call) = error, call.saysHandle else { throw error }
                entry = try relisted(input, call, &session)
                return (try tier.open(input, with: entry, in: &session), tier.protection)
            }
        } catch {
            guard case .token(let call) = error else { throw Self.decryptionFailed }
            // A stranger's bytes, or a dead token? A transaction that is known to be good tells.
            if let failure = tier.failsTrial(with: entry, in: &session) {
                throw WorkerFailure(
                    .tokenUnavailable, "The token does not decrypt any more: \(call); \(failure).".prefixed(900))
            }
            throw Self.decryptionFailed
        }
    }

    /// One answer for all that a stranger can cause.
    private static let decryptionFailed = WorkerFailure(
        .decryptionFailed, "The payment data could not be decrypted.")

    private func entry(for input: Decryption) throws(WorkerFailure) -> PrivateKeyEntry {
        guard let entry = keys[input.publicKeyHash] else {
            throw WorkerFailure(.keyNotFound, "The token has no usable private key with that publicKeyHash.")
        }
        // The version must fit the key: RSA_v1 data for an EC key was made by nobody's device.
        guard entry.publicKey.algorithm == input.scheme.algorithm else { throw Self.decryptionFailed }
        return entry
    }

    private func relisted(
        _ input: Decryption, _ failure: CallError, _ session: inout Session
    ) throws(RestorationError) -> PrivateKeyEntry {
        do throws(CallError) {
            _ = try exclusively { () throws(CallError) in try listKeys(in: &session) }
        } catch {
            throw .token(error)
        }
        guard let entry = keys[input.publicKeyHash] else { throw .token(failure) }
        return entry
    }
}

extension CallError {
    /// The object is not there any more.
    var saysHandle: Bool { returnValue == .keyHandleInvalid || returnValue == .objectHandleInvalid }
}

extension String {
    /// Cut to what a frame's sentence holds.
    func prefixed(_ count: Int) -> String { String(prefix(count)) }
}
