import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import StrictJSON

struct KeyListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Lists the merchants' keys with use, state, expiry and tier.",
        discussion: """
            The certificate that expires soonest comes first, keys without a certificate last. An expired certificate of a \
            processing key stops nothing here: the key still opens payment tokens that arrive, but Apple encrypts no new \
            ones to it. With an expired certificate of an identity key Apple gives no merchant sessions. A merchant's newest \
            active Google Pay key has no certificate, and counts as expiring when it is a year old: nothing fails then, but \
            Google asks for a new key.

            With --expiring, only keys are listed that need a new certificate or, for Google Pay, a new key: the certificate \
            or the year ends within that time or has ended, and the key is not retired, compromised or destroyed. Exit \
            status 1 if there is such a key, 0 if there is none, for a monitoring job:

              paytokenctl key list
              paytokenctl key list --output json | jq -r '.[].merchantIdentifier'
              paytokenctl key list --expiring 60d || echo "Renew these." | mail ops
            """)

    @Option(help: ArgumentHelp("Only keys that expire within this time: 60d, 12h.", valueName: "duration"))
    var expiring: ShortDuration?

    @OptionGroup var width: WideOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let (keys, items) = try await socket.connection.allKeys()
        try write(keys, items)
    }

    /// This is not part of `run`, because the optimizer of Swift 6.3.1 crashes (signal 11) when it splits that
    /// coroutine.
    private func write(_ keys: [KeySummary], _ items: [JSONValue]) throws {
        var (keys, items) = (keys, items)
        if let expiring {
            let end = Date(timeIntervalSinceNow: expiring.seconds)
            let chosen = keys.indices.filter { Self.isExpiring(keys[$0], before: end) }
            (keys, items) = (chosen.map { keys[$0] }, chosen.map { items[$0] })
        }
        let order = Self.order(keys)
        (keys, items) = (order.map { keys[$0] }, order.map { items[$0] })
        switch format.output {
        case .json: try Console.output(json: JSONValue.array(items).compact)
        case .table:
            if keys.isEmpty {
                Console.error(
                    expiring == nil
                        ? "There are no keys."
                        : "No certificate expires and no Google Pay key is a year old within that time.")
            } else {
                try Console.output(MerchantKeyTable.several(keys), width)
                let now = Date()
                for use in ["processing", "identity", "google-pay"]
                where keys.contains(where: { $0.use == use && Self.isExpiring($0, before: now) }) {
                    Console.error(NextStep.replaceKey(of: use))
                }
            }
        }
        if expiring != nil, !keys.isEmpty { throw CommandFailure(.no, nil) }
    }

    static func isExpiring(_ key: KeySummary, before end: Date) -> Bool {
        guard let keyEnd = key.end, !["deactivated", "compromised", "destroyed"].contains(key.state)
        else { return false }
        return keyEnd <= end
    }

    /// Sorts by expiry, soonest first. Keys without an expiry, or that no longer exist, are last. Then sorts by
    /// merchant and hash.
    static func order(_ keys: [KeySummary]) -> [Int] {
        func rank(_ key: KeySummary) -> (Date, String, String) {
            let end = key.state == "destroyed" ? nil : key.end
            return (end ?? .distantFuture, key.merchantIdentifier ?? "", key.publicKeyHash)
        }
        return keys.indices.map { ($0, rank(keys[$0])) }.sorted { $0.1 < $1.1 }.map(\.0)
    }
}

extension KeySummary {
    /// The time from which the key needs a new certificate or, for Google Pay, a successor; nil if it has no such time.
    var end: Date? { notAfter ?? replacementDue }
}

struct KeyShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows one merchant key.",
        discussion: """
            KEY is the publicKeyHash: in base64 as in a payment token's header (44 characters), in hex, or the \
            beginning of the hex, at least 8 characters that only one key has.

              paytokenctl key show 1f8b3c90
              paytokenctl key show AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=

            The HSM tokens that hold the key are asked for the attributes of its private half. An imported key was \
            outside before, so its HSM token reports it as not made there, not always sensitive and not never \
            extractable. Attributes without their required values are listed under shortcoming. These are the HSM \
            token's own statements.
            """)

    @OptionGroup var key: KeyArgument
    @OptionGroup var read: ReadOptions

    func run() async throws {
        try await read.show(.get("/v1/keys/\(key.key.hex)"), as: KeySummary.self) { MerchantKeyTable.one($0).text }
    }
}
