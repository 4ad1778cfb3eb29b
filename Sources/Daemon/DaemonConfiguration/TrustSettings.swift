import ConfigurationFile
import Encodings
import Foundation
import HostSystem
package import X509

/// The section `trust`: the roots of both wallets, and the distrusted certificates.
package struct TrustSettings: Sendable, Equatable {
    /// The absolute paths of the configured root files, which are in PEM or DER.
    var rootFiles: [String] = []
    /// The certificates in ``rootFiles``. If this array is empty, the daemon trusts the built-in Apple Root CA - G3.
    package var roots: [Certificate] = []
    /// The SHA-256 fingerprints of certificates that no chain may contain, 32 bytes each.
    package var distrusted: Set<[UInt8]> = []
    /// Google's root keys, with the paths of their files; nil without Google Pay.
    package var googlePay: GooglePayTrust?
}

extension TrustSettings {
    static let keys = ["roots", "distrusted", "google_pay", "google_pay_fetched", "google_pay_auto_accept"]
    private static let maximumFileBytes = 64 * 1024

    init(_ section: ConfigurationSection) {
        for element in section.texts("roots") ?? [] {
            let path = section.reader.absolute(element.value)
            do throws(RootFileFlaw) {
                roots += try Self.certificates(inFile: path)
                rootFiles.append(path)
            } catch {
                section.reader.problem(
                    element.key, line: element.line, "\(ConfigurationText.shown(path)) \(error.what)")
            }
        }
        if !rootFiles.isEmpty {
            section.warning(
                .foreignRoots, "roots",
                "a person with the key of a root named here can make payment tokens that decrypt; leave the list empty for "
                    + "Apple's root alone")
        }
        for element in section.texts("distrusted") ?? [] {
            guard let fingerprint = Self.fingerprint(element.value) else {
                section.reader.problem(
                    element.key, line: element.line,
                    "must be a certificate's SHA-256 fingerprint: 64 hexadecimal digits, with or without colons")
                continue
            }
            distrusted.insert(fingerprint)
        }
        googlePay = GooglePayTrust(section)
    }

    package struct RootFileFlaw: Error {
        package let what: String
    }

    private static func certificates(inFile path: String) throws(RootFileFlaw) -> [Certificate] {
        let bytes = try content(ofFile: path)
        let begin = "-----BEGIN CERTIFICATE-----"
        do {
            guard let text = String(validating: bytes, as: UTF8.self), text.contains(begin) else {
                return [try Certificate(derEncoded: bytes)]
            }
            return try text.components(separatedBy: begin).dropFirst().map {
                try Certificate(pemEncoded: begin + $0)
            }
        } catch {
            throw RootFileFlaw(what: "holds no certificate in PEM or DER")
        }
    }

    static func content(ofFile path: String) throws(RootFileFlaw) -> [UInt8] {
        do throws(SmallFile.Failure) {
            return try SmallFile.bytes(at: path, maximumBytes: maximumFileBytes)
        } catch {
            throw RootFileFlaw(what: "cannot be read: \(error)")
        }
    }

    /// Returns the 32 bytes of a fingerprint. The text has 64 hexadecimal digits in either case, with colons between the
    /// bytes or without. Returns nil for any other text.
    static func fingerprint(_ text: String) -> [UInt8]? {
        let pairs = text.split(separator: ":", omittingEmptySubsequences: false)
        guard pairs.count == 1 || pairs.allSatisfy({ $0.utf8.count == 2 }) else { return nil }
        return Hexadecimal.decode(pairs.joined()).flatMap { $0.count == 32 ? $0 : nil }
    }
}
