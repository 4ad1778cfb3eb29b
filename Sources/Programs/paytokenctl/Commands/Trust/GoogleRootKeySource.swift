import CommandOutput
import DaemonAPI
import Encodings
import FixedHosts
import Foundation
import GooglePayToken
import NIOCore
import NIOHTTP1
import OutgoingConnections

/// Google's published file of root keys.
struct GoogleRootKeySource {
    static let host = "payments.developers.google.com"
    /// The time limit of the request in seconds.
    private static let patience = 30

    /// True for the file of Google's TEST environment.
    let isTest: Bool
    private let host: FixedHost

    init(isTest: Bool, _ way: FixedHost.Way) throws {
        self.isTest = isTest
        do {
            host = try FixedHost(Self.host, way, maximumBodyBytes: GoogleRootFile.maximumBytes)
        } catch {
            throw CommandFailure(.unreadable, "The roots of --trust cannot be used: \(error).")
        }
    }

    private var path: String { "/paymentmethodtoken/\(isTest ? "test/" : "")keys.json" }
    private var url: String { "https://\(Self.host)\(path)" }

    /// Fetches the file, and checks it.
    ///
    /// - Returns: the keys for ECv2, of which at least one has not expired.
    func fetch() async throws -> GoogleRootFile {
        let answer: HTTPResponse
        do throws(HTTPFault) {
            answer = try await host.send(
                HTTPRequest(
                    .GET, path,
                    [
                        "Host": Self.host, "Accept": "application/json", "User-Agent": "paytokenctl",
                        "Connection": "close",
                    ]), before: .now + .seconds(Self.patience))
        } catch {
            throw failure(error)
        }
        guard answer.status == 200 else {
            throw CommandFailure(
                .unreachable, "\(url) answered with the status \(answer.status); redirects are not followed.")
        }
        guard answer.isFramed else { throw refusal("the answer may be incomplete: it does not state its length") }
        let now = Date()
        return try file(
            answer.bytes,
            GoogleRootFile.Fetch(
                at: now, freshUntil: now.addingTimeInterval(TimeInterval(Freshness.seconds(answer.head.headers)))))
    }

    private func file(_ bytes: [UInt8], _ fetch: GoogleRootFile.Fetch) throws -> GoogleRootFile {
        let keys: [GoogleRootKey]
        do throws(UnsuitableKey) {
            keys = try GoogleRootKeys(parsing: bytes).keys
        } catch {
            throw refusal(error.reason)
        }
        guard keys.contains(where: { fetch.at < $0.expiration }) else { throw refusal("each key for ECv2 has expired") }
        guard isTest || !keys.contains(where: \.isTest) else {
            throw refusal("it has the key of Google's TEST environment")
        }
        return GoogleRootFile(keys: keys, fetch: fetch)
    }

    private func refusal(_ reason: String) -> CommandFailure {
        CommandFailure(.no, "The file at \(url) is refused: \(Printable.text(reason)).")
    }

    private func failure(_ fault: HTTPFault) -> CommandFailure {
        let reason =
            switch fault.cause {
            case .tooLarge: "the answer is longer than \(GoogleRootFile.maximumBytes) bytes"
            case .nameNotResolved: "the name was not resolved"
            case .late: "no answer within \(Self.patience) seconds"
            case .notHTTP: "the answer is not HTTP"
            case .error(is ProxyTunnel.Failure): "the proxy made no tunnel"
            case .ended, .error, .silent:
                fault.phase == .securing
                    ? "no TLS connection to a server with a certificate for that host" : "the connection broke"
            }
        if case .tooLarge = fault.cause { return refusal(reason) }
        return CommandFailure(.unreachable, "\(url) was not read: \(reason).")
    }
}

/// The freshness lifetime of an HTTP answer (RFC 9111 §4.2.1).
enum Freshness {
    /// The longest lifetime. A longer one would hide for as long that Google has removed a key.
    static let maximumSeconds = 7 * 86_400

    /// Returns max-age minus Age. Returns 0 for an answer without max-age, with no-cache or no-store, or with an Age that is
    /// not a number.
    static func seconds(_ headers: HTTPHeaders) -> Int {
        let directives = headers[canonicalForm: "cache-control"].map { $0.lowercased() }
        guard !directives.contains(where: { $0 == "no-store" || $0 == "no-cache" }) else { return 0 }
        let prefix = "max-age="
        let ages = directives.filter { $0.hasPrefix(prefix) }.map { number($0.dropFirst(prefix.count)) ?? 0 }
        guard let maximum = ages.min() else { return 0 }
        let age = headers.first(name: "age").map { number($0[...]) ?? .max } ?? 0
        return age >= maximum ? 0 : min(maximum - age, maximumSeconds)
    }

    private static func number(_ text: Substring) -> Int? {
        let digits = text.drop { $0 == " " }.prefix { $0 != " " }
        guard (1...9).contains(digits.utf8.count),
            digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return digits.utf8.count > 9 ? .max : nil }
        return Int(digits)
    }
}
