import ArgumentParser
import AuditChain
import Encodings

/// Which records, beside their time; each condition that is given must hold.
struct RecordConditions: ParsableArguments {
    @Option(
        help: ArgumentHelp("A key's publicKeyHash in base64, or 8 to 64 characters of hex.", valueName: "key"),
        completion: .key, transform: KeyReference.parse)
    var key: KeyReference?

    @Option(help: ArgumentHelp("The merchant identifier.", valueName: "id"), completion: .merchant)
    var merchant: String?

    @Option(help: ArgumentHelp("The name of the caller's access rule, or the caller's uid.", valueName: "name"))
    var caller: String?

    @Option(help: ArgumentHelp("ok, repeat, or a refusal's code.", valueName: "code"))
    var outcome: String?

    @Option(help: ArgumentHelp("A transactionId, 64 hexadecimal digits.", valueName: "hex"))
    var transaction: String?

    func validate() throws {
        if let outcome, AuditOutcome(outcome) == nil {
            throw ValidationError("--outcome is ok, repeat or a refusal's code such as transaction_replayed.")
        }
        if let transaction, AuditDigest(hex: transaction.lowercased()) == nil {
            throw ValidationError("--transaction is a transactionId of 64 hexadecimal digits.")
        }
    }

    /// For the daemon. A key goes in hexadecimal, however it was written.
    var query: [(name: String, value: String)] {
        [
            ("key", key?.hex), ("merchant", merchant), ("caller", caller), ("outcome", outcome),
            ("transaction", transaction?.lowercased()),
        ].compactMap { name, value in value.map { (name, $0) } }
    }
}
