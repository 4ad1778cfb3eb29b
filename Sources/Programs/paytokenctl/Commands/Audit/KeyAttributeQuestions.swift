import CommandOutput
import DaemonAPI
import Encodings
import Foundation

/// Asks the daemon for each key's attributes in the HSM tokens. A key whose request fails has no attributes but a
/// reason.
struct KeyAttributeQuestions {
    let connection: DaemonConnection
    /// The time limit for all requests together. Without it, a slow HSM token could prevent the report from being
    /// written.
    var limit: Duration = .seconds(300)

    /// - Returns: the keys with their attributes, and for each key without them a sentence with the reason, by
    ///   publicKeyHash in base64.
    func answers(for listed: [KeySummary]) async -> (keys: [KeySummary], faults: [String: String]) {
        let end = ContinuousClock.now + limit
        var progress = ProgressLine()
        var (keys, faults) = (listed, [String: String]())
        for number in keys.indices {
            let hash = keys[number].publicKeyHash
            guard ContinuousClock.now < end else {
                faults[hash] =
                    "The HSM tokens were asked for \(limit.components.seconds) seconds, which was too short to reach this key."
                continue
            }
            if progress.isDue {
                progress.show("\(number.grouped) of \(keys.count.grouped) keys read from their HSM tokens")
            }
            guard let bytes = Base64.decode(hash) else {
                faults[hash] = "The daemon lists it under a name that is not a publicKeyHash."
                continue
            }
            do {
                let target = "/v1/keys/\(Hexadecimal.encode(bytes))"
                keys[number].attributes = try await connection.send(.get(target), for: KeySummary.self)
                    .answer.attributes
            } catch {
                faults[hash] = (error as? CommandFailure)?.message ?? "The daemon gave no reason."
            }
        }
        progress.clear()
        return (keys, faults)
    }
}
