import Foundation

extension ConfigurationSection {
    /// Directories that the package's systemd units create at start (RuntimeDirectory=, StateDirectory=).
    private static let unitDirectories: Set<String> = [
        "/run/paytokend", "/var/lib/paytokend", "/run/paytoken-gateway", "/var/lib/paytoken-gateway",
    ]

    /// Reports the error that would occur at startup at the location that a configuration key names. Does nothing
    /// unless the reader examines locations (``ConfigurationReader/examinesPlaces``).
    ///
    /// - Parameters:
    ///   - path: the absolute path of the socket or database.
    ///   - examine: throws the error that would occur at startup, and changes nothing.
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
