public import Encodings
public import Foundation
internal import StrictJSON

/// A file of Google's root keys on this host: as Google publishes it, or as paytokenctl writes it, with the keys for
/// ECv2 alone and the times of the fetch.
public struct GoogleRootFile: Sendable, Equatable {
    /// The size limit of a file in bytes. Google's has less than 2,000.
    public static let maximumBytes = 64 * 1024

    /// The fetch that wrote the file.
    public struct Fetch: Sendable, Equatable {
        public let at: Date
        /// The time until which Google's answer need not be fetched again (RFC 9111 §4.2).
        public let freshUntil: Date

        public init(at: Date, freshUntil: Date) { (self.at, self.freshUntil) = (at, freshUntil) }
    }

    public let keys: [GoogleRootKey]
    /// nil for a file that a person placed.
    public let fetch: Fetch?

    public var rootKeys: GoogleRootKeys { GoogleRootKeys(keys) }

    /// - Parameter keys: at least one, since a file without keys cannot be read.
    public init(keys: [GoogleRootKey], fetch: Fetch? = nil) { (self.keys, self.fetch) = (keys, fetch) }

    /// - Throws: ``UnsuitableKey`` with the reason.
    public init(parsing bytes: [UInt8]) throws(UnsuitableKey) {
        let json = try GoogleRootKeys.document(parsing: bytes)
        keys = try GoogleRootKeys(json).keys
        guard let at = json.objectValue?["fetchedAt"] else {
            fetch = nil
            return
        }
        guard let at = at.stringValue.flatMap(RFC3339.date),
            let freshUntil = json.objectValue?["freshUntil"]?.stringValue.flatMap(RFC3339.date)
        else { throw UnsuitableKey(reason: "fetchedAt and freshUntil are not two times as RFC 3339 writes them") }
        fetch = Fetch(at: at, freshUntil: freshUntil)
    }

    /// The file's content, in Google's form: one entry on a line.
    public var json: [UInt8] {
        // No character of base64, of digits or of a time is escaped in JSON.
        let times = fetch.map {
            "\"fetchedAt\": \"\(RFC3339.string($0.at))\", \"freshUntil\": \"\(RFC3339.string($0.freshUntil))\",\n"
        }
        let entries = keys.map { key in
            let expiration = Int((key.expiration.timeIntervalSince1970 * 1_000).rounded())
            return
                "{\"keyValue\": \"\(Base64.encode(key.key.der))\", \"protocolVersion\": \"\(GooglePayToken.version)\", "
                + "\"keyExpiration\": \"\(expiration)\"}"
        }
        return Array("{\(times ?? "")\"keys\": [\n\(entries.joined(separator: ",\n"))\n]}\n".utf8)
    }
}

/// The root keys that payment tokens are verified with, from two files.
///
/// A person accepts keys, and only an account that may change the daemon's configuration can write the accepted ones.
/// Google's newest file is fetched by an account that may not. It can therefore only take trust away from a key.
public struct GoogleRootTrust: Sendable, Equatable {
    /// The keys that count. There may be none.
    public let trusted: GoogleRootKeys
    /// The fetched keys that no person has accepted and that do not count.
    public let notAccepted: [GoogleRootKey]
    /// The accepted keys that Google no longer lists. They do not count.
    public let vanished: [GoogleRootKey]

    /// - Parameters:
    ///   - accepted: the keys that a person has accepted.
    ///   - fetched: the keys of Google's newest file; nil if there is none, and every accepted key counts.
    ///   - acceptsAll: true if fetched keys count without a person, except the key of Google's TEST environment.
    public init(accepted: [GoogleRootKey], fetched: [GoogleRootKey]?, acceptsAll: Bool = false) {
        guard let fetched else {
            (trusted, notAccepted, vanished) = (GoogleRootKeys(accepted), [], [])
            return
        }
        var (trusted, notAccepted): ([GoogleRootKey], [GoogleRootKey]) = ([], [])
        for key in fetched {
            let match = accepted.first { $0.sha256 == key.sha256 }
            if let match {
                // The account that fetches cannot prolong a key.
                trusted.append(GoogleRootKey(key: key.key, expiration: min(key.expiration, match.expiration)))
            } else if acceptsAll, !key.isTest {
                trusted.append(key)
            } else {
                notAccepted.append(key)
            }
        }
        (self.trusted, self.notAccepted) = (GoogleRootKeys(trusted), notAccepted)
        vanished = accepted.filter { key in !fetched.contains { $0.sha256 == key.sha256 } }
    }
}
