public import Foundation
import StrictJSON

/// Real payment tokens for interoperability tests, in the directory that PAYTOKEND_INTEROP_FIXTURES names. They are not
/// part of this project. Tests that need them are skipped if the variable is not set.
public enum Fixtures {
    public struct PaymentToken: Sendable {
        /// The payment token's path in the directory.
        public let name: String
        public let version: String
        public let merchantIdentifier: String?
        /// The signing time in RFC 3339.
        public let signingTime: String
        /// The file of the private key in PKCS#8 DER; nil if the key was not published.
        public let privateKey: URL?
        public let certificate: URL?
        /// The SHA-256 of the decrypted bytes in lower-case hexadecimal.
        public let plaintextSHA256: String?
        /// The dictionary as JSON text, which is either a PKPaymentToken or its paymentData.
        public let json: [UInt8]
        /// The CMS message.
        public let signature: [UInt8]
    }

    /// A file in the directory that could not be read.
    public struct Unreadable: Error {
        public let reason: String
    }

    public static let directory: URL? = ProcessInfo.processInfo.environment["PAYTOKEND_INTEROP_FIXTURES"]
        .flatMap { $0.isEmpty ? nil : URL(filePath: $0) }

    /// Reads all payment tokens that `manifest.json` lists.
    public static func paymentTokens() throws -> [PaymentToken] {
        guard let directory else { return [] }
        let manifest = try JSONValue(parsing: Array(Data(contentsOf: directory.appending(path: "manifest.json"))))
        guard let entries = manifest.arrayValue else { throw Unreadable(reason: "manifest.json is no array") }
        return try entries.compactMap(\.objectValue).map { entry in
            func text(_ name: String) -> String? { entry[name]?.stringValue }
            func file(_ name: String) -> URL? { text(name).map { directory.appending(path: $0) } }
            guard let name = text("token"), let version = text("version"), let time = text("signingTime") else {
                throw Unreadable(reason: "manifest.json: an entry lacks token, version or signingTime")
            }
            let content = Array(try Data(contentsOf: directory.appending(path: name)))
            let json =
                name.hasSuffix(".json") ? content : try paymentData(radial: String(decoding: content, as: UTF8.self))
            let object = try JSONValue(parsing: json).objectValue
            let data = object?["paymentData"]?.objectValue ?? object
            return PaymentToken(
                name: name, version: version, merchantIdentifier: text("merchantIdentifier"), signingTime: time,
                privateKey: file("privateKey"), certificate: file("certificate"),
                plaintextSHA256: text("plaintextSHA256"), json: json,
                signature: base64(data?["signature"]?.stringValue ?? ""))
        }
    }

    /// Builds the paymentData dictionary from Radial's XML, whose elements contain the values of the dictionary's
    /// members.
    private static func paymentData(radial xml: String) throws -> [UInt8] {
        func element(_ name: String) throws -> String {
            guard let open = xml.range(of: "<\(name)>"), let close = xml.range(of: "</\(name)>") else {
                throw Unreadable(reason: "the XML has no \(name)")
            }
            return xml[open.upperBound..<close.lowerBound].filter { !$0.isWhitespace }
        }
        let header = try """
        {"ephemeralPublicKey":"\(element("EphemeralPublicKey"))","publicKeyHash":"\(element("PublicKeyHash"))",\
        "transactionId":"\(element("ApplePayTransactionId"))"}
        """
        return Array(
            try """
            {"version":"\(element("Version"))","data":"\(element("Data"))","signature":"\(element("Signature"))",\
            "header":\(header)}
            """.utf8)
    }

    private static func base64(_ text: String) -> [UInt8] {
        let padded = text + String(repeating: "=", count: (4 - text.count % 4) % 4)
        return Data(base64Encoded: padded).map(Array.init) ?? []
    }
}

/// Real payment tokens of Google Pay's TEST environment, in the same directory, with their published keys.
extension Fixtures {
    public struct GooglePayToken: Sendable {
        public let name: String
        /// Google's object as JSON text.
        public let json: [UInt8]
        /// The merchant's private key in PEM.
        public let privateKey: String
        /// The milliseconds since 1970 at which the intermediate signing key expired.
        public let intermediateExpiration: Int
    }

    /// The merchant of every payment token in the TEST environment.
    public static let googlePayMerchant = "12345678901234567890"
    /// The file of root keys of the TEST environment, with its key for ECv2 alone.
    public static let googlePayTestRoots = Array(
        """
        {"keys":[{"keyValue":"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGnJ7Yo1sX9b4kr4Aa5uq58JRQfzD8bIJXw7WXaap/hVE+PnFxvjx\
        4nVxt79SdRuUVeu++HZD0cGAv4IOznc96w==","protocolVersion":"ECv2","keyExpiration":"2154841200000"}]}
        """.utf8)

    public static func googlePayTokens() throws -> [GooglePayToken] {
        guard let directory = directory?.appending(path: "googlepay") else { return [] }
        return try [
            ("token.new.json", "key.new.pem", 1_709_020_759_412), ("token.old.json", "key.old.pem", 1_678_562_555_601),
            (
                "ecv2-cryptogram-tokenized_card.json", "ecv2-cryptogram-google_pay_token_private_key.pem",
                1_595_702_501_149
            ),
        ].map { token, key, expiration in
            GooglePayToken(
                name: token, json: Array(try Data(contentsOf: directory.appending(path: token))),
                privateKey: try String(contentsOf: directory.appending(path: key), encoding: .utf8),
                intermediateExpiration: expiration)
        }
    }
}

/// Published test vectors: Wycheproof's JSON files in the checkout of swift-crypto, and NIST's in
/// `Tests/Equipment/PublishedVectors`.
public enum PublishedVectors {
    /// The checkout of the running build, whose directory for products is two below the build's own.
    private static let swiftCryptoTests = Result {
        URL(filePath: try Program.built("paytokend-hsm")).resolvingSymlinksInPath()
            .appending(path: "../../../checkouts/swift-crypto/Tests").standardized
    }

    /// A Wycheproof file with signatures.
    public struct Signatures: Decodable, Sendable {
        public struct Group: Decodable, Sendable {
            /// The SubjectPublicKeyInfo in hexadecimal; `keyDer` in RSA's files.
            public let publicKeyDer, keyDer: String?
            public let sha: String
            /// The hash of MGF1 and the salt's size, in files of PSS.
            public let mgfSha: String?
            public let sLen: Int?
            public let keysize: Int?
            public let tests: [Case]

            public var subjectPublicKeyInfo: [UInt8] { [UInt8](hexadecimal: publicKeyDer ?? keyDer ?? "") ?? [] }
        }
        public struct Case: Decodable, Sendable {
            public let tcId: Int
            public let msg, sig, result: String

            public var message: [UInt8] { [UInt8](hexadecimal: msg) ?? [] }
            public var signature: [UInt8] { [UInt8](hexadecimal: sig) ?? [] }
        }
        public let testGroups: [Group]
    }

    /// Reads a Wycheproof file with signatures by its name.
    public static func signatures(_ name: String) throws -> [Signatures.Group] {
        try JSONDecoder().decode(Signatures.self, from: wycheproof(name)).testGroups
    }

    /// Reads a Wycheproof file by its name, such as `ecdh_secp256r1_test.json`.
    public static func wycheproof(_ name: String) throws -> Data {
        for folder in ["Test Vectors", "CryptoExtrasVectors"] {
            let file = try swiftCryptoTests.get().appending(path: folder).appending(component: name)
            if FileManager.default.fileExists(atPath: file.path) { return try Data(contentsOf: file) }
        }
        throw CocoaError(.fileNoSuchFile, userInfo: [NSFilePathErrorKey: name])
    }

    /// The text of a file of NIST's vectors.
    public static func nist(_ name: String) throws -> String {
        try String(contentsOf: ProjectFiles.url("Tests/Equipment/PublishedVectors/\(name)"), encoding: .utf8)
    }

    /// A case of NIST's CAVP: its lines `name = value`, and those above it that hold for several cases.
    public struct CAVPCase: Sendable {
        public fileprivate(set) var values: [String: String]

        public subscript(name: String) -> String { values[name] ?? "" }

        /// Decodes a value in hexadecimal; empty if there is none.
        public func bytes(_ name: String) -> [UInt8] { [UInt8](hexadecimal: self[name]) ?? [] }
    }

    /// Reads the cases of a CAVP file. A case has a result or an authentication tag.
    public static func cavp(_ name: String) throws -> [CAVPCase] {
        var (cases, common) = ([CAVPCase](), [String: String]())
        for block in try nist(name).components(separatedBy: "\n\n") {
            var values = common
            for line in block.split(separator: "\n") where !line.hasPrefix("#") {
                let parts = line.trimmingCharacters(in: ["[", "]"]).components(separatedBy: "=")
                values[parts[0].trimmingCharacters(in: .whitespaces)] =
                    parts.dropFirst().first?.trimmingCharacters(in: .whitespaces) ?? ""
            }
            if values["Result"] != nil || values["Tag"] != nil {
                cases.append(CAVPCase(values: values))
            } else {
                common = values
            }
        }
        return cases
    }
}

// Tests compare the results of the module Encodings with those of these functions, so these functions do not use it.
extension Sequence<UInt8> {
    /// The bytes in lower-case hexadecimal digits.
    public var hexadecimal: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }
}

extension [UInt8] {
    /// Decodes hexadecimal digits; nil if their number is odd or another character occurs.
    public init?(hexadecimal text: String) {
        var bytes: [UInt8] = []
        var digits = text.makeIterator()
        while let first = digits.next() {
            guard let high = first.hexDigitValue, let low = digits.next()?.hexDigitValue else { return nil }
            bytes.append(UInt8(high << 4 | low))
        }
        self = bytes
    }
}
