import ArgumentParser
import CLinux
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import KeyFiles
import KeySealing

/// The use of a key that has no certificate to state it.
enum ImportUse: String, ExpressibleByArgument, CaseIterable {
    case service
}

struct KeyImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Imports a merchant's existing key into the HSM token, non-extractable from then on.",
        usage: """
            paytokenctl key import --private-key <file> --certificate <file> [--password-file <file>]
                                   [--merchant-identifier <id>] [--token <name>]... [--allow-expired] [--dry-run]
                                   [--approval <id>]
                                   [--output <table|json>] [--socket <path>]
            paytokenctl key import --pkcs12 <file> [--password-file <file>] [--certificate <file>] …
            paytokenctl key import --wallet google-pay --private-key <file> --merchant-identifier <id> …
            paytokenctl key import --use service --private-key <file> [--token <name>]... …
            """,
        discussion: """
            The private key (EC on P-256 or RSA with 2048 bits) is read as PKCS#8, SEC 1 or PKCS#1, the certificate as \
            X.509 or PKCS#7, both in PEM or DER; or both from a PKCS#12 bundle, with old ciphers too. This command \
            seals the key for the worker process of the HSM token, so the daemon forwards it but cannot read it. The \
            process that listens on the socket must run as root, as the caller, or as the socket's owner. The \
            certificate determines the key's merchant, and whether the key opens payments or signs for merchant \
            sessions (a Merchant Identity Certificate).

              paytokenctl key import --private-key key.pem --certificate merchant.cer
              paytokenctl key import --pkcs12 merchant.p12 --password-file password
              paytokenctl key import --private-key key.pem --certificate merchant.cer \\
                  --merchant-identifier merchant.com.example --dry-run
              paytokenctl key import --private-key key.pem --certificate merchant.cer \\
                  --token a --token b

            If approvals.people is 2, an import by staff waits for a second person: the command ends with 75 and names \
            an approval. The approved import waits for its requester: repeat the same command with --approval ID. The \
            key is not kept meanwhile. Root and the daemon's own user need no second person.

              paytokenctl key import --private-key key.pem --certificate merchant.cer \\
                  --approval 0a1b2c3d4e5f6071

            With --wallet google-pay it imports a Google Pay key, which has no certificate. Name the merchant as Google's \
            console does; nothing in the file shows it. Then prove the key on each host (key prove), and state that it is in \
            Google's console (rotate added). It serves only after that.

              paytokenctl key import --wallet google-pay --private-key google.pem \\
                  --merchant-identifier BCR2DN4TEXAMPLE

            With --use service it imports the team's key for Apple's App Store Connect API, the file AuthKey_….p8, under \
            the key id that the daemon's configuration names (renewal.key_id). Such a key has no certificate. Whoever can \
            use it has the whole role of the key at Apple, so destroy the file afterwards.

              paytokenctl key import --use service --private-key AuthKey_2X9R4HXF34.p8

            Keep the file with the key offline, or destroy it, once the key is in the HSM token and its backup.
            """)

    @Option(
        help: ArgumentHelp(
            "service for the key of Apple's App Store Connect API; leave it out for a merchant's key.",
            valueName: "service"))
    var use: ImportUse?

    @Option(help: ArgumentHelp("apple-pay or google-pay.", valueName: "wallet"))
    var wallet: WalletOption = .applePay

    @Option(
        help: ArgumentHelp("The private key; others must not be able to read the file.", valueName: "file"),
        completion: .file())
    var privateKey: String?

    @Option(
        help: ArgumentHelp("Apple's certificate for it.", valueName: "file"), completion: .file())
    var certificate: String?

    @Option(
        help: ArgumentHelp(
            "A PKCS#12 bundle with the private key and its certificate; others must not be able to read the file.",
            valueName: "file"), completion: .file())
    var pkcs12: String?

    @Option(
        help: ArgumentHelp(
            "A file with the password of an encrypted PKCS#8 key or a PKCS#12 bundle.", valueName: "file"),
        completion: .file())
    var passwordFile: String?

    @Option(
        help: ArgumentHelp(
            "The merchant identifier that the certificate must name; for Google Pay, the merchant's at Google.",
            valueName: "id"),
        completion: .merchant)
    var merchantIdentifier: String?

    @Option(
        help: ArgumentHelp(
            "An HSM token by its name in the configuration, may be repeated; required if there are several.",
            valueName: "name"), completion: .hsmToken)
    var token: [String] = []

    @Flag(help: "Accepts a certificate that has expired.")
    var allowExpired = false

    @Option(
        help: ArgumentHelp("The approval that this import waited for.", valueName: "id"), completion: .approval)
    var approval: String?

    @OptionGroup var change: ChangeOptions

    func validate() throws {
        if wallet == .googlePay {
            guard pkcs12 == nil, certificate == nil, use == nil, !allowExpired else {
                throw ValidationError(
                    "A Google Pay key has no certificate: give --private-key and --merchant-identifier, and no --pkcs12, "
                        + "--certificate, --use or --allow-expired.")
            }
            guard merchantIdentifier != nil else {
                throw ValidationError("Missing expected argument '--merchant-identifier <id>'")
            }
            guard privateKey != nil else { throw ValidationError("Missing expected argument '--private-key <file>'") }
        } else if use == .service {
            guard pkcs12 == nil, certificate == nil, merchantIdentifier == nil, !allowExpired else {
                throw ValidationError(
                    "A service key has neither certificate nor merchant: give --private-key and no --pkcs12, --certificate, "
                        + "--merchant-identifier or --allow-expired.")
            }
            guard privateKey != nil else { throw ValidationError("Missing expected argument '--private-key <file>'") }
        } else if pkcs12 != nil {
            guard privateKey == nil else { throw ValidationError("Give --private-key or --pkcs12, not both.") }
        } else {
            guard privateKey != nil else { throw ValidationError("Missing expected argument '--private-key <file>'") }
            guard certificate != nil else { throw ValidationError("Missing expected argument '--certificate <file>'") }
        }
        guard Set(token).count == token.count else { throw ValidationError("--token names an HSM token twice.") }
    }

    func run() async throws {
        // This process's memory will contain a private key.
        _ = paytokend_forbid_dumps()
        // Check the files before the first request to the daemon, so that a wrong file has no effect there.
        if use == .service { return try await importUncertifiedKey(use: "service", "Apple's API keys") }
        if wallet == .googlePay { return try await importUncertifiedKey(use: "google-pay", "Google Pay keys") }
        let files = try readFiles()
        if let note = files.certificate.note { Console.error(note) }
        let sealedKeys = try await sealedKeys(files.privateKey, authenticating: files.certificate.der)
        try await post(
            KeyImportRequest(
                merchantIdentifier: merchantIdentifier, certificate: Base64.encode(files.certificate.der),
                sealedKeys: sealedKeys, allowExpired: allowExpired, approval: approval))
    }

    /// Imports a key that has no certificate, and is EC on P-256.
    private func importUncertifiedKey(use: String, _ keys: String) async throws {
        let file = try PrivateKeyFile(path: privateKey ?? "", passwordFile: passwordFile)
        guard file.algorithm == .ec, let publicKey = file.subjectPublicKeyInfo() else {
            throw CommandFailure(
                .unreadable, "\(privateKey ?? "") is not an EC key on P-256, as \(keys) are.")
        }
        let sealedKeys = try await sealedKeys(file, authenticating: publicKey)
        try await post(
            KeyImportRequest(
                merchantIdentifier: merchantIdentifier, use: use, publicKey: Base64.encode(publicKey),
                sealedKeys: sealedKeys, approval: approval))
    }

    /// Seals the private key for each HSM token that is to hold it.
    private func sealedKeys(
        _ key: borrowing PrivateKeyFile, authenticating associatedData: [UInt8]
    ) async throws -> [KeyImportRequest.SealedKey] {
        let status = try await change.socket.connection.trusted.send(.get("/v1/status"), for: StatusAnswer.self).answer
        // Get all recipients before a key is sealed, so that the import puts the key into every HSM token or into none.
        var sealedKeys: [KeyImportRequest.SealedKey] = []
        for (name, importKey) in try Self.recipients(in: status.tokens, named: token) {
            let sealed = try seal(key, authenticating: associatedData, to: importKey)
            sealedKeys.append(
                KeyImportRequest.SealedKey(
                    token: name, encapsulatedKey: Base64.encode(sealed.encapsulatedKey),
                    sealedPrivateKey: Base64.encode(sealed.sealed)))
        }
        return sealedKeys
    }

    private func post(_ request: KeyImportRequest) async throws {
        try await change.post(
            "/v1/keys/import", request, for: KeySummary.self, dryRunSays: "the key can be imported",
            whenPending: NextStep.repeatCommand("imported")
        ) { MerchantKeyTable.one($0).text }
    }

    private func readFiles() throws -> MerchantKeyFiles {
        if let pkcs12 {
            return try MerchantKeyFiles(pkcs12: pkcs12, passwordFile: passwordFile, certificate: certificate)
        }
        return try MerchantKeyFiles(
            privateKey: privateKey ?? "", passwordFile: passwordFile, certificate: certificate ?? "")
    }

    private func seal(
        _ key: borrowing PrivateKeyFile, authenticating associatedData: [UInt8], to importKey: [UInt8]
    ) throws -> SealedPrivateKey {
        do {
            return try KeySealing.seal(privateKey: key.pkcs8, authenticating: associatedData, to: importKey)
        } catch {
            throw CommandFailure(.defect, "internal_error: the private key could not be sealed (\(error)).")
        }
    }

    /// The HSM tokens to import into, with their workers' public keys.
    static func recipients(
        in hsmTokens: [HSMTokenStatus], named names: [String]
    ) throws -> [(name: String, importKey: [UInt8])] {
        let all = hsmTokens.map(\.name).joined(separator: ", ")
        guard !names.isEmpty || hsmTokens.count == 1 else {
            throw CommandFailure(
                .usage, "The daemon has several HSM tokens: \(all). Name those that are to hold the key with --token.")
        }
        var recipients: [(name: String, importKey: [UInt8])] = []
        for name in names.isEmpty ? hsmTokens.map(\.name) : names {
            guard let hsmToken = hsmTokens.first(where: { $0.name == name }) else {
                throw CommandFailure(.usage, "The daemon has no HSM token \(name), but \(all.isEmpty ? "none" : all).")
            }
            // An HSM token that is open has an import key. If it serves nothing, the daemon refuses the key for good.
            guard let importKey = hsmToken.importKey.flatMap({ Base64.decode($0) }) else {
                let condition = hsmToken.condition == "ready" ? "not ready" : hsmToken.condition
                let reason = hsmToken.message.map { ": \($0)" } ?? "."
                throw CommandFailure(
                    .tryAgainLater, "hsm_unavailable: the HSM token \(name) is \(condition)\(reason)")
            }
            recipients.append((name, Array(importKey)))
        }
        return recipients
    }
}
