import Foundation

extension ConfigurationSection {
    /// Directories that the package's systemd units make when they start (RuntimeDirectory=, StateDirectory=).
    private static let unitDirectories: Set<String> = [
        "/run/paytokend", "/var/lib/paytokend", "/run/paytoken-gateway", "/var/lib/paytoken-gateway",
    ]

    /// Reports what would keep a start from using the place that a key names, when the program was asked to examine places.
    ///
    /// - Parameters:
    ///   - path: of the socket or database, absolute.
    ///   - examine: throws what the start would, and changes nothing.
    package func examine<Failure>(_ name: String, at path: String, _ examine: () throws(Failure) -> Void) {
        guard reader.examinesPlaces else { return }
        do throws(Failure) { try examine() } catch {
            let directory = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
            guard Self.unitDirectories.contains(directory), !FileManager.default.fileExists(atPath: directory) else {
                let hint = path.contains("/~") ? "; ~ is not expanded, write the directory out" : ""
                let text = "\(error)"
                return problem(name, (text.hasSuffix(".") ? String(text.dropLast()) : text) + hint)
            }
            warning(
                .missingDirectory, name,
                "the directory \(directory) does not exist; the systemd unit makes it, and any other start ends with 78"
            )
        }
    }
}

extension ConfigurationWarning.Setting {
    package static let missingDirectory = Self("missing_directory", isInsecure: false)
}
