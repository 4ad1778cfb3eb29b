import AuditChain
import DaemonAPI

/// What an export is verified with: the checkpoints' public keys, and checkpoints that were kept elsewhere.
enum VerificationInputs {
    /// The public keys in a PEM file.
    static func keys(file: String) throws(CommandFailure) -> CheckpointKeys {
        let text = String(decoding: try InputFile.read(file), as: UTF8.self)
        guard let keys = CheckpointKeys(pem: text) else {
            throw CommandFailure(
                .unreadable,
                "\(InputFile.name(file)) holds no public key in PEM (BEGIN PUBLIC KEY), or one that is not on P-256. "
                    + "`paytokenctl audit public-key` prints the daemon's.")
        }
        return keys
    }

    /// Checkpoints that were kept: a line itself, or a file of them.
    static func heads(_ argument: String) throws(CommandFailure) -> [SignedCheckpoint] {
        let isLine = argument.hasPrefix("{")
        guard let heads = SignedCheckpoint.list(parsing: isLine ? Array(argument.utf8) : try InputFile.read(argument))
        else {
            throw CommandFailure(
                isLine ? .usage : .unreadable,
                (isLine
                    ? "--head is no checkpoint" : "\(InputFile.name(argument)) holds something else than checkpoints")
                    + ". A checkpoint is a whole line of an export that begins with {\"checkpoint\": and an export's "
                    + "last line is one.")
        }
        return heads
    }

    /// The daemon's own.
    static func keys(_ answer: AuditPublicKeyAnswer) throws(CommandFailure) -> CheckpointKeys {
        guard !answer.keys.isEmpty else {
            throw CommandFailure(
                .tryAgainLater,
                "hsm_unavailable: the daemon has no audit key yet. It is made in the token when ledger and token meet for "
                    + "the first time; `paytokenctl status` says what is missing.")
        }
        let keys = answer.keys.compactMap { CheckpointKey(pem: $0.publicKey) }
        guard keys.map(\.keyId.hex) == answer.keys.map(\.keyId) else {
            throw CommandFailure(
                .unreachable, "The daemon's audit keys are not understood. Are both of the same version?")
        }
        return CheckpointKeys(keys)
    }

    /// What the token remembers, as the daemon says.
    static func head(_ answer: AuditPublicKeyAnswer) throws(CommandFailure) -> [SignedCheckpoint] {
        guard let line = answer.head else {
            Console.error("The token remembers no checkpoint, so an end that was cut off would not be found.")
            return []
        }
        guard let heads = SignedCheckpoint.list(parsing: Array(line.utf8)) else {
            throw CommandFailure(
                .unreachable, "The checkpoint that the token remembers is not understood. Are both of the same version?"
            )
        }
        return heads
    }
}
