import KeyTypes
import PKCS11
import WorkerProtocol

extension OpenToken {
    /// Restores one transaction's key and opens its data.
    ///
    /// PKCS#11 return values do not distinguish bad input from a failing HSM token, and a mistake is costly. Blaming
    /// the HSM token for bad input would let a caller end workers at will. Blaming the input for a failing HSM token
    /// would permanently refuse a good payment. So the call is repeated before either is blamed. The input is refused
    /// when the same call returns the same error three times, and a transaction that is known to be good opens in
    /// between.
    ///
    /// A wrong padding and a wrong tag take the same path, whatever the return value. No difference in time or in calls
    /// therefore distinguishes them (see ``WrappedKey``).
    func decrypt(
        _ input: Decryption, in session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> (plaintext: [UInt8], tier: ProtectionTier) {
        guard let tier = tiers.chosen[input.scheme] else {
            throw WorkerFailure(.notSupported, "The HSM token cannot serve \(input.scheme.name); its status says why.")
        }
        var failures = FailedAttempts(unexplained: "a wrong tag")
        while true {
            let entry = try borrow(for: input, in: &session)
            defer { keys.giveBack(input.publicKeyHash) }
            do throws(RestorationError) {
                return try keyUses.reading { () throws(RestorationError) in
                    let plaintext = try tier.open(input, with: entry, in: &session)
                    countUse(of: entry)
                    return (plaintext, tier.protection)
                }
            } catch {
                switch error {
                case .input:
                    throw Self.decryptionFailed
                case .refused(let call):
                    try recover(from: call, entry, tier, &failures, &session, &deadline)
                case .hsmToken(let call) where call.isBusy:
                    guard deadline.wait(), !deadline.isOver else {
                        throw WorkerFailure(.overloaded, "The HSM token was busy until the deadline: \(call).")
                    }
                case .hsmToken(let call):
                    try recover(from: call, entry, tier, &failures, &session, &deadline)
                }
            }
            guard failures.total < FailedAttempts.attemptLimit, !deadline.isOver else {
                throw WorkerFailure(
                    .overloaded, "The HSM token failed \(failures.total) times at one transaction: \(failures.last).")
            }
        }
    }

    /// Handles a failed attempt. Returns if the attempt may be repeated, after it has repaired the session, the login
    /// or the key's handle if necessary. Otherwise throws the failure for the daemon.
    ///
    /// - Parameter call: The call that failed; nil if this process found a wrong tag.
    private func recover(
        from call: CallError?, _ entry: PrivateKeyEntry, _ tier: any RestorationTier,
        _ failures: inout FailedAttempts, _ session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) {
        let times = failures.count(call)
        try restore(&session, &deadline)
        if let call, call.isStaleHandle || call.isSessionLost {
            if call.isStaleHandle {
                try findAgain(entry, call, &session, &deadline)
            } else {
                try reopen(&session, &deadline)
            }
            // New sessions and handles fail in the same way: the library no longer works in this process.
            guard times >= FailedAttempts.equalErrorLimit, let current = keys[entry.publicKey.publicKeyHash],
                let failure = openingFailure(of: tier, with: current, in: &session), failure.call?.isBusy != true
            else { return }
            throw Self.doesNotDecrypt(call, failure)
        }
        guard times < FailedAttempts.equalErrorLimit else {
            if let call, !call.processesUntrustedInput {
                throw WorkerFailure(
                    .overloaded, "The HSM token fails to open this transaction, but opens others: \(call).")
            }
            throw Self.decryptionFailed
        }
        guard openingFailure(of: tier, with: entry, in: &session) != nil else { return }
        // The HSM token does not open a known transaction either. The test is repeated in a new session, since the
        // fault may be in the session alone.
        try reopen(&session, &deadline)
        guard let failure = openingFailure(of: tier, with: entry, in: &session) else { return }
        guard failure.call?.isBusy != true else { return }
        throw Self.doesNotDecrypt(call, failure)
    }

    private func openingFailure(
        of tier: any RestorationTier, with entry: PrivateKeyEntry, in session: inout Session
    ) -> SelfTestFailure? {
        keyUses.reading { tier.openingFailure(with: entry, in: &session) }
    }

    private static func doesNotDecrypt(_ call: CallError?, _ failure: SelfTestFailure) -> WorkerFailure {
        WorkerFailure(
            .hsmTokenUnavailable,
            "The HSM token does not decrypt any more: \(call?.description ?? "a wrong tag"); \(failure).")
    }

    /// The answer to every fault that an untrusted caller can cause. It is always the same, so it does not reveal which
    /// check failed.
    private static let decryptionFailed = WorkerFailure(
        .decryptionFailed, "The payment data could not be decrypted.")

    /// Borrows the merchant key for this input. The caller must return it with `keys.giveBack(_:)`.
    private func borrow(
        for input: Decryption, in session: inout Session
    ) throws(WorkerFailure) -> PrivateKeyEntry {
        let entry = try borrow(input.publicKeyHash, for: .processing, in: &session)
        // The payment token's version must fit the key's algorithm: no device makes RSA_v1 data for an EC key.
        guard entry.publicKey.algorithm == input.scheme.algorithm else {
            keys.giveBack(input.publicKeyHash)
            throw Self.decryptionFailed
        }
        return entry
    }
}

/// The failed attempts at one operation so far.
struct FailedAttempts {
    /// The number of consecutive equal errors after which the operation's input or key counts as the cause, if other
    /// operations succeed.
    static let equalErrorLimit = 3
    /// The number of failed attempts after which the operation is not repeated, even if each attempt failed with
    /// another error.
    static let attemptLimit = 8

    /// The text that messages give as the error if the HSM token reported none, such as "a wrong tag".
    let unexplained: String
    private(set) var total = 0
    private var latest: CallError??
    private var times = 0

    init(unexplained: String) {
        self.unexplained = unexplained
    }

    /// - Parameter call: The call that failed; nil if this process found the fault.
    /// - Returns: The number of consecutive times that this error has occurred.
    mutating func count(_ call: CallError?) -> Int {
        total += 1
        times = latest == .some(call) ? times + 1 : 1
        latest = .some(call)
        return times
    }

    var last: String { (latest ?? nil)?.description ?? unexplained }
}
