import ArgumentParser
import Foundation

/// The output of commands that mint payment tokens without end.
enum EndlessOutput {
    /// Prints lines until the reader closes the pipe, and then returns. It waits while the pipe is full, so it mints no
    /// more in advance than the pipe holds.
    ///
    /// - Parameter next: returns the next lines, without line feeds.
    static func print(_ next: () throws -> [[UInt8]]) throws {
        // SIGPIPE is ignored even if the parent process set its default action, so that a closed pipe makes the write
        // fail.
        _ = signal(SIGPIPE, SIG_IGN)
        while true {
            let lines = try next().flatMap { $0 + [UInt8(ascii: "\n")] }
            do {
                try FileHandle.standardOutput.write(contentsOf: Data(lines))
            } catch let error where isClosedPipe(error) {
                return
            }
        }
    }

    private static func isClosedPipe(_ error: any Error) -> Bool {
        let underlying = (error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError
        return underlying?.domain == NSPOSIXErrorDomain && underlying?.code == Int(EPIPE)
    }
}

/// The option `--signing-time`.
enum SigningTime {
    /// - Returns: nil without a text.
    static func parse(_ text: String?) throws -> Date? {
        guard let text else { return nil }
        guard let date = try? Date(text, strategy: .iso8601) else {
            throw ValidationError("--signing-time: \(text) is not RFC 3339, such as 2026-01-31T12:00:00Z")
        }
        return date
    }
}
