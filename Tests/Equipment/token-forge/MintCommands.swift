public import ArgumentParser
import Foundation
public import TokenForge

extension Deviation: ExpressibleByArgument {}

/// The output of `mint`.
enum MintedBody: String, ExpressibleByArgument, CaseIterable {
    case token
    case paymentData = "payment-data"
    case decrypt, verify
}

/// The wire form in which payment tokens are minted, named by the years of its use.
enum WireYears: String, ExpressibleByArgument, CaseIterable {
    case since2014 = "2014"
    case since2019 = "2019"
    case since2023 = "2023"
    case der
    var form: WireForm {
        switch self {
        case .since2014: .since2014
        case .since2019: .since2019
        case .since2023: .since2023
        case .der: .distinguished
        }
    }
}

struct MintCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mint",
        abstract: "Prints a payment token for a merchant as JSON.",
        discussion: "Account number and cryptogram are fictitious. `token-forge deviations` lists the possible faults.")

    @Argument(help: ArgumentHelp("The authority's directory.", valueName: "DIR"))
    var directory: String

    @Option(
        help: ArgumentHelp("The merchant's certificate, PEM or DER, with its key and identifier.", valueName: "FILE"))
    var certificate: String

    @Option(help: ArgumentHelp("The identifier, if the certificate has none.", valueName: "ID"))
    var merchantIdentifier: String?

    @Option(help: "transactionAmount, as JSON text.")
    var amount = "1099"

    @Option(help: "currencyCode, three digits.")
    var currency = "840"

    @Flag(help: "Mint an EMV payload instead of 3DSecure.")
    var emv = false

    @Option(help: ArgumentHelp("A file with the payload's bytes, instead of a fictitious payload.", valueName: "FILE"))
    var payload: String?

    @Option(help: ArgumentHelp("The request's applicationData, whose hash is in the header.", valueName: "TEXT"))
    var applicationData: String?

    @Option(help: ArgumentHelp("RFC 3339, such as 2026-01-31T12:00:00Z; default: now.", valueName: "TIME"))
    var signingTime: String?

    @Option(help: ArgumentHelp("64 hexadecimal digits; default: random.", valueName: "HEX"))
    var transactionId: String?

    @Option(help: "The wire form of these years (2014, 2019, 2023), or der.")
    var wire: WireYears = .since2023

    @Option(help: ArgumentHelp("The stated version, such as RSA_v2; default: by key type.", valueName: "VERSION"))
    var version: String?

    @Option(help: ArgumentHelp("A fault of the payment token; may be repeated.", valueName: "NAME"))
    var deviation: [Deviation] = []

    @Option(help: "The output: token, payment-data, or a complete body for /v1/decrypt or /v1/verify.")
    var body: MintedBody = .token

    @Option(help: ArgumentHelp("With --body decrypt: the reference.", valueName: "TEXT"))
    var reference: String?

    @Option(help: ArgumentHelp("With --body decrypt: the expected member, JSON.", valueName: "JSON"))
    var expected: String?

    @Option(help: ArgumentHelp("The number of payment tokens, each on a separate line.", valueName: "N"))
    var count = 1

    @Option(help: ArgumentHelp("A payload on each line, each for one payment token.", valueName: "FILE"))
    var payloads: String?

    @Flag(help: "Mint payment tokens without end, as the reader of the pipe reads them, until it closes the pipe.")
    var endless = false

    @Flag(help: "With --endless: print each payload on a separate line before its payment token.")
    var withPayloads = false

    func validate() throws {
        if count < 1 { throw ValidationError("--count: at least 1") }
        if count > 1, transactionId != nil { throw ValidationError("--transaction-id: not with --count") }
        if payloads != nil, payload != nil || transactionId != nil || count > 1 {
            throw ValidationError("--payloads: not with --payload, --transaction-id or --count")
        }
        if endless, payloads != nil || transactionId != nil || count > 1 {
            throw ValidationError("--endless: not with --payloads, --transaction-id or --count")
        }
        if withPayloads, !endless || payload != nil {
            throw ValidationError("--with-payloads: only with --endless, and not with --payload")
        }
    }

    func run() throws {
        let der = try ForgePEM.file(certificate, label: "CERTIFICATE", "certificate")
        let merchant = try Merchant(certificate: der, identifier: merchantIdentifier)
        let mint = try TokenMint(authority: ForgeAuthority(directory: URL(filePath: directory)))
        if endless {
            try printWithoutEnd(merchant, mint)
        } else if let payloads {
            for payload in try Data(contentsOf: URL(filePath: payloads)).split(separator: UInt8(ascii: "\n")) {
                try printToken(recipe(for: merchant, Array(payload)), mint)
            }
        } else {
            for _ in 0..<count { try printToken(recipe(for: merchant, payloadBytes()), mint) }
        }
    }

    private func printWithoutEnd(_ merchant: Merchant, _ mint: TokenMint) throws {
        try EndlessOutput.print {
            let payload = try payloadBytes()
            let paymentToken = text(of: try mint.mint(recipe(for: merchant, payload)))
            return withPayloads ? [payload, paymentToken] : [paymentToken]
        }
    }

    private func printToken(_ recipe: TokenRecipe, _ mint: TokenMint) throws {
        print(String(decoding: text(of: try mint.mint(recipe)), as: UTF8.self))
    }

    private func recipe(for merchant: Merchant, _ payload: [UInt8]) throws -> TokenRecipe {
        var recipe = TokenRecipe(
            merchant: merchant, payload: payload,
            applicationData: applicationData.map { Array($0.utf8) },
            signingTime: try SigningTime.parse(signingTime) ?? Date(), wire: wire.form,
            deviations: Set(deviation))
        if let version { recipe.version = version }
        if let transactionId { recipe.transactionIdentifier = try bytes(hex: transactionId) }
        return recipe
    }

    private func text(of minted: MintedToken) -> [UInt8] {
        switch body {
        case .token: minted.paymentToken
        case .paymentData: minted.paymentData
        case .decrypt: minted.decryptBody(expected: expected, reference: reference)
        case .verify: minted.verifyBody()
        }
    }

    private func payloadBytes() throws -> [UInt8] {
        if let payload { return Array(try Data(contentsOf: URL(filePath: payload))) }
        var recipe = PayloadRecipe(emv ? .emv : .threeDSecure)
        recipe.amount = amount
        recipe.currencyCode = currency
        return recipe.json
    }

    private func bytes(hex: String) throws -> [UInt8] {
        let digits = Array(hex)
        let bytes = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
            UInt8(String(digits[$0...($0 + 1)]), radix: 16)
        }
        guard digits.count == 64, bytes.count == 32 else {
            throw ValidationError("--transaction-id: 64 hexadecimal digits are needed")
        }
        return bytes
    }
}

struct OpenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open",
        abstract: "Decrypts payment tokens with the merchant's private key, in software.",
        discussion: """
            Standard input has a payment token on each line. Standard output has its payload on the same line, byte for \
            byte, or an empty line if it cannot be decrypted. The command checks neither signature nor time.
            """)

    @Option(help: ArgumentHelp("The merchant's certificate, PEM or DER.", valueName: "FILE"))
    var certificate: String

    @Option(help: ArgumentHelp("Its private key, PEM.", valueName: "FILE"))
    var privateKey: String

    func run() throws {
        let der = try ForgePEM.file(certificate, label: "CERTIFICATE", "certificate")
        let opener = try TokenOpener(
            merchant: Merchant(certificate: der),
            key: ForgeKey(pem: String(contentsOfFile: privateKey, encoding: .utf8)))
        while let line = readLine() {
            let plaintext = try opener.open(Data(line.utf8)) ?? []
            FileHandle.standardOutput.write(Data(plaintext) + Data("\n".utf8))
        }
    }
}

struct DeviationsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deviations",
        abstract: "Lists what can be wrong with a token, and the code with which it must be refused.")

    func run() {
        let width = Deviation.allCases.map(\.rawValue.count).max() ?? 0
        for deviation in Deviation.allCases {
            let versions = ["EC_v1", "RSA_v1"].filter { deviation.applies(to: $0) }
            let only = versions.count == 1 ? " (\(versions[0]) only)" : ""
            let name = deviation.rawValue.padding(toLength: width, withPad: " ", startingAt: 0)
            let code = (deviation.refusal ?? "accepted").padding(toLength: 24, withPad: " ", startingAt: 0)
            print("\(name)  \(code)  \(deviation.summary)\(only)")
        }
    }
}
