public import Foundation

/// The files of the repository from which the tests are built.
public enum ProjectFiles {
    /// The directory of Package.swift.
    private static let root: URL = {
        var directory = URL(filePath: #filePath)
        repeat {
            directory.deleteLastPathComponent()
        } while directory.path != "/"
            && !FileManager.default.fileExists(atPath: directory.appending(path: "Package.swift").path)
        return directory
    }()

    /// A file by its path below the top, such as `scripts/verify-audit`.
    public static func url(_ path: String) -> URL { root.appending(path: path) }

    public static func path(_ path: String) -> String { url(path).path }
}
