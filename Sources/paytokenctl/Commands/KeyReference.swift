import ArgumentParser
import Encodings

extension KeyReference {
    /// KEY on the command line: what is wrong is said.
    static func parse(_ argument: String) throws -> KeyReference {
        guard let key = KeyReference(argument) else {
            throw ValidationError(
                "a key is named by its publicKeyHash: all 44 characters of base64, or at least 8 characters of hex from its "
                    + "beginning; key show tells both.")
        }
        return key
    }

    /// The beginning of a publicKeyHash in hex, as people pass it around; `-` for what is no base64.
    static func short(base64: String) -> String {
        Base64.decode(base64).map { Hexadecimal.encode($0.prefix(4)) } ?? "-"
    }
}

/// A duration as the configuration writes it.
struct ShortDuration: ExpressibleByArgument, Equatable {
    let seconds: Double

    init?(argument: String) {
        guard let duration = DurationText.duration(argument) else { return nil }
        seconds = duration / .seconds(1)
    }
}
