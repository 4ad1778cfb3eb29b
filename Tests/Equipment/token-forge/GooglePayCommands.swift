import ArgumentParser
import Crypto
import Foundation
import TokenForge

struct GoogleAuthorityCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "google-authority",
        abstract: "Makes a root key and an intermediate signing key like Google's.",
        discussion: """
            DIR/google-root.key.pem and DIR/google-intermediate.key.pem are the private keys (mode 0600). Name \
            DIR/google-pay-keys.json under trust.google_pay of paytokend's configuration. It lasts a year.
            """)

    @Argument(help: ArgumentHelp("The directory; made when it is missing.", valueName: "DIR"))
    var directory: String

    func run() throws {
        let forge = GooglePayForge()
        let url = URL(filePath: directory)
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        for (name, key) in [("root", forge.root), ("intermediate", forge.intermediateKey)] {
            try SecretFile.write(Array(key.pemRepresentation.utf8), to: url.appending(path: "google-\(name).key.pem"))
        }
        try Data(forge.rootKeys(expiration: Date().addingTimeInterval(365 * 86_400)))
            .write(to: url.appending(path: "google-pay-keys.json"))
        print("made \(directory)/google-pay-keys.json")
    }
}

struct GoogleMintCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "google-mint",
        abstract: "Prints Google Pay payment tokens (ECv2) for a merchant, each as a line of JSON.",
        discussion: "Their card and cryptogram are fictitious.")

    @Argument(help: ArgumentHelp("The directory of google-authority.", valueName: "DIR"))
    var directory: String

    @Option(help: ArgumentHelp("The merchant's identifier at Google, without merchant:.", valueName: "ID"))
    var merchantIdentifier: String

    @Option(
        help: ArgumentHelp("Base64 of the point, as `paytokenctl key public-key` prints it.", valueName: "POINT"),
        transform: GooglePayPoint.parse)
    var publicKey: P256.KeyAgreement.PublicKey

    @Option(
        help: ArgumentHelp(
            "RFC 3339: a week before the messages expire; default: a minute ago.", valueName: "TIME"))
    var signingTime: String?

    @Option(
        help: ArgumentHelp(
            "The number of messages with each messageId, printed one after another. Only one of them can be released.",
            valueName: "N"))
    var perMessageId = 1

    @Option(help: "The number of payment tokens.")
    var count = 1

    @Flag(help: "Mint payment tokens without end, as the reader of the pipe reads them, until it closes the pipe.")
    var endless = false

    func validate() throws {
        if perMessageId < 1 { throw ValidationError("--per-message-id: at least 1") }
        if endless, count != 1 { throw ValidationError("--endless: not with --count") }
        if count < 1 || !count.isMultiple(of: perMessageId), !endless {
            throw ValidationError("--count: at least 1, and a multiple of --per-message-id")
        }
    }

    func run() throws {
        let forge = try GooglePayForge(root: key("root"), intermediateKey: key("intermediate"))
        let signedAt = try SigningTime.parse(signingTime)
        // Google signs an intermediate key once, and uses it for days.
        var first: GooglePayEnvelope?
        func mintForOneMessageId() throws -> [[UInt8]] {
            // By default a minute ago, so that a slow clock of this host does not make the message one of the future.
            let expiration = (signedAt ?? Date().addingTimeInterval(-60)).addingTimeInterval(7 * 86_400)
            let plaintext = GooglePayForge.plaintext(expiring: expiration)
            return try (0..<perMessageId).map { _ in
                var envelope = try forge.mint(
                    plaintext, to: publicKey, recipient: "merchant:\(merchantIdentifier)", expiration: expiration)
                let signed = first ?? envelope
                first = signed
                (envelope.signedKey, envelope.signatures) = (signed.signedKey, signed.signatures)
                return Array(envelope.json.utf8)
            }
        }
        if endless { return try EndlessOutput.print(mintForOneMessageId) }
        for _ in 0..<(count / perMessageId) {
            for line in try mintForOneMessageId() { print(String(decoding: line, as: UTF8.self)) }
        }
    }

    private func key(_ name: String) throws -> P256.Signing.PrivateKey {
        let file = URL(filePath: directory).appending(path: "google-\(name).key.pem")
        return try P256.Signing.PrivateKey(pemRepresentation: String(contentsOf: file, encoding: .utf8))
    }
}

/// The option `--public-key`.
enum GooglePayPoint {
    private static let byteCount = 65

    /// - Parameter text: base64 of an uncompressed point on P-256.
    @Sendable static func parse(_ text: String) throws -> P256.KeyAgreement.PublicKey {
        let found: String
        switch Data(base64Encoded: text) {
        case nil: found = "not base64"
        case let point? where point.count != byteCount: found = "base64 of \(point.count) bytes"
        case let point?:
            if let key = try? P256.KeyAgreement.PublicKey(x963Representation: point) { return key }
            found = "not a point on P-256"
        }
        throw ValidationError(
            "\(found); expected is base64 of the uncompressed point, \(byteCount) bytes, as `paytokenctl key public-key KEY` "
                + "prints it")
    }
}
