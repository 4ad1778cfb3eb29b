public import Foundation

/// Files of this repository.
public enum ProjectFiles {
    /// The directory that contains Package.swift.
    private static let root: URL = {
        var directory = URL(filePath: #filePath)
        repeat {
            directory.deleteLastPathComponent()
        } while directory.path != "/"
            && !FileManager.default.fileExists(atPath: directory.appending(path: "Package.swift").path)
        return directory
    }()

    /// Returns a file's URL by its path in the repository, such as `scripts/verify-audit`.
    public static func url(_ path: String) -> URL { root.appending(path: path) }

    public static func path(_ path: String) -> String { url(path).path }
}
