import ArgumentParser
import CommandOutput
import Encodings
import Foundation
import GooglePayToken
import HostSystem

/// The files of Google's root keys on this host.
enum GoogleRootKeyFiles {
    /// The file that `trust.google_pay` names in the sample configuration.
    static let accepted = "/etc/paytokend/google-pay-keys.json"
    /// The file that `trust.google_pay_fetched` names in the sample configuration.
    static let fetched = "/var/lib/paytoken-outbound/google-pay-keys.json"

    /// Returns the content of a file; nil if there is no file.
    static func read(_ path: String) throws -> GoogleRootFile? {
        let bytes: [UInt8]
        do throws(SmallFile.Failure) {
            bytes = try SmallFile.bytes(at: path, maximumBytes: GoogleRootFile.maximumBytes)
        } catch {
            if case .system(let error) = error, error.errno == ENOENT { return nil }
            throw CommandFailure(.unreadable, "\(path) cannot be read: \(error).")
        }
        do throws(UnsuitableKey) {
            return try GoogleRootFile(parsing: bytes)
        } catch {
            throw CommandFailure(
                .unreadable,
                "\(path) holds no root keys of Google's: \(Printable.text(error.reason)). Nothing was replaced.")
        }
    }

    static func write(_ content: GoogleRootFile, to file: NewFile) throws {
        try file.write(content.json)
        try file.publish()
    }

    /// Every account may read the files: the keys are public, and the daemon's account reads what another one wrote.
    static func replacement(of path: String) throws -> NewFile { try NewFile(path, mode: 0o644, replacing: true) }
}

/// A root key's fingerprint on the command line. It is complete, since a person accepts the key by it, and a key with the
/// same first digits can be made.
struct RootKeyFingerprint: ExpressibleByArgument, Equatable {
    let bytes: [UInt8]

    init?(argument: String) {
        guard let bytes = Hexadecimal.decode(argument.replacing(":", with: "")), bytes.count == 32 else { return nil }
        self.bytes = bytes
    }

    var hex: String { Hexadecimal.encode(bytes) }
}

extension GoogleRootKey {
    var hex: String { Hexadecimal.encode(sha256) }
}
