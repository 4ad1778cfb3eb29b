import CommandOutput
import DaemonAPI
import Encodings

extension StreamedAnswer {
    /// Writes the body to a file, showing the progress.
    ///
    /// - Parameters:
    ///   - word: the verb of the progress line, such as `copied`.
    ///   - take: takes each piece before it is written.
    /// - Returns: the number of bytes.
    @discardableResult
    func copy(
        to file: NewFile, said word: String, _ take: (_ piece: [UInt8]) -> Void = { _ in }
    ) async throws -> Int {
        var written = 0
        var progress = ProgressLine()
        defer { progress.clear() }
        try await forEachPiece { piece in
            take(piece)
            try file.write(piece)
            written += piece.count
            if progress.isDue { progress.show("\((written >> 10).grouped) KiB \(word)") }
            return true
        }
        return written
    }
}
