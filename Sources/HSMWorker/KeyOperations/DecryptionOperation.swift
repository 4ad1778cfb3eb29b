import PKCS11
import WorkerProtocol

extension OpenToken {
    /// Restores one transaction's key and opens its data.
    ///
    /// PKCS#11 return values do not tell a stranger's bytes from a token in trouble, and neither may be taken for the
    /// other: the first must not cost a worker, the second must not refuse a good transaction for good. So an error is
    /// believed when it comes again at the same call, while transactions that are known to be good go well between. A
    /// wrong padding and a wrong tag take this way alike, whatever the token returns for them.
    func decrypt(
        _ input: Decryption, in session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> (plaintext: [UInt8], tier: ProtectionTier) {
        guard let tier = tiers[input.scheme] else {
            throw WorkerFailure(.notSupported, "The token cannot serve \(input.scheme.name); its status says why.")
        }
        var failures = FailedAttempts()
        while true {
            let entry = try borrow(for: input, in: &session)
            defer { keys.giveBack(input.publicKeyHash) }
            do throws(RestorationError) {
                let plaintext = try tier.open(input, with: entry, in: &session)
                countUse(of: entry)
                return (plaintext, tier.protection)
            } catch {
                switch error {
                case .input:
                    throw Self.decryptionFailed
                case .refused(let call):
                    try recover(call, entry, tier, &failures, &session, &deadline)
                case .token(let call) where call.isBusy:
                    guard deadline.wait() else {
                        throw WorkerFailure(.overloaded, "The token was busy until the deadline: \(call).")
                    }
                case .token(let call):
                    try recover(call, entry, tier, &failures, &session, &deadline)
                }
            }
            guard failures.total < FailedAttempts.most, !deadline.isOver else {
                throw WorkerFailure(.overloaded, "The token faltered again and again: \(failures.last).")
            }
        }
    }

    /// Finds out what an error means and does what can be done about it; the caller tries again when it returns.
    ///
    /// - Parameter call: nil for a wrong tag that was found outside the token.
    private func recover(
        _ call: CallError?, _ entry: PrivateKeyEntry, _ tier: any RestorationTier, _ failures: inout FailedAttempts,
        _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) {
        let times = failures.count(call)
        try restore(&session, &deadline)
        if let call, call.isStaleHandle {
            return try lookAgain(for: entry, call, &session, &deadline)
        }
        if call?.isSessionLost == true {
            return try reopen(&session, &deadline)
        }
        guard times < FailedAttempts.enough else {
            if let call, !call.processesUntrustedInput {
                throw WorkerFailure(
                    .overloaded, "The token falters at this transaction, though it works otherwise: \(call).")
            }
            throw Self.decryptionFailed
        }
        guard tier.openingFailure(with: entry, in: &session) != nil else { return }
        // It may be the session alone.
        try reopen(&session, &deadline)
        guard let failure = tier.openingFailure(with: entry, in: &session) else { return }
        guard failure.call?.isBusy != true else { return }
        throw WorkerFailure(
            .tokenUnavailable,
            "The token does not decrypt any more: \(call?.description ?? "a wrong tag"); \(failure).")
    }

    /// Somebody else's tool may have replaced the object, or the token ended the session that owned the working copy.
    private func lookAgain(
        for entry: PrivateKeyEntry, _ call: CallError, _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) {
        // An operation that did not end, or the session, may be in the way once.
        var isSecond = false
        while true {
            do throws(CallError) {
                try exclusively { () throws(CallError) in try lookAgain(for: entry, in: &session) }
            } catch {
                if error.isBusy, deadline.wait() { continue }
                guard !isSecond else {
                    throw WorkerFailure(.tokenUnavailable, "\(call), and the key cannot be looked for: \(error).")
                }
                isSecond = true
                try reopen(&session, &deadline)
                continue
            }
            guard keys[entry.publicKey.publicKeyHash]?.working != entry.working else {
                throw WorkerFailure(.tokenUnavailable, "The token does not show the key any more: \(call).")
            }
            return
        }
    }

    /// One answer for all that a stranger can cause.
    private static let decryptionFailed = WorkerFailure(
        .decryptionFailed, "The payment data could not be decrypted.")

    /// The caller gives it back.
    private func borrow(
        for input: Decryption, in session: inout Session
    ) throws(WorkerFailure) -> PrivateKeyEntry {
        guard let entry = keys.borrow(input.publicKeyHash) ?? newlyFound(input.publicKeyHash, in: &session) else {
            throw WorkerFailure(.keyNotFound, "The token has no usable private key with that publicKeyHash.")
        }
        // The version must fit the key: RSA_v1 data for an EC key was made by nobody's device.
        guard entry.publicKey.algorithm == input.scheme.algorithm else {
            keys.giveBack(input.publicKeyHash)
            throw Self.decryptionFailed
        }
        return entry
    }
}

extension OpenToken {
    /// The daemon asks only for keys that the token has shown: one that is not known came in while this worker listed
    /// the others, by its predecessor.
    private func newlyFound(_ hash: [UInt8], in session: inout Session) -> PrivateKeyEntry? {
        exclusively {
            // Listed anew, keys may be missing for a moment.
            if let entry = keys.borrow(hash) { return entry }
            _ = try? describeKey(hash, in: &session)
            return keys.borrow(hash)
        }
    }
}

/// What went wrong with one transaction so far.
private struct FailedAttempts {
    /// So often the same, and the rest of the token well: then it is the transaction.
    static let enough = 3
    /// Of all kinds together.
    static let most = 8

    private(set) var total = 0
    private var latest: CallError??
    private var times = 0

    /// - Parameter call: nil for a wrong tag that was found outside the token.
    /// - Returns: How often this came, one after the other.
    mutating func count(_ call: CallError?) -> Int {
        total += 1
        times = latest == .some(call) ? times + 1 : 1
        latest = .some(call)
        return times
    }

    var last: String { (latest ?? nil)?.description ?? "a wrong tag" }
}
