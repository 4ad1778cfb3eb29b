public import Foundation

/// Published test vectors, read from the packages' checkouts: Wycheproof's JSON files come with swift-crypto.
public enum PublishedVectors {
    private static let swiftCryptoTests = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: ".build/checkouts/swift-crypto/Tests")

    /// One of Wycheproof's files by its name, such as `ecdh_secp256r1_test.json`.
    public static func wycheproof(_ name: String) throws -> Data {
        for folder in ["Test Vectors", "CryptoExtrasVectors"] {
            let file = swiftCryptoTests.appending(path: folder).appending(component: name)
            if FileManager.default.fileExists(atPath: file.path) { return try Data(contentsOf: file) }
        }
        throw CocoaError(.fileNoSuchFile, userInfo: [NSFilePathErrorKey: name])
    }
}

extension [UInt8] {
    /// Bytes from hexadecimal digits; nil for an odd number of them or another character.
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
