import CommandOutput
import DaemonAPI
import Encodings

extension StreamedAnswer {
    /// Writes the body to a file, and shows how far that is.
    ///
    /// - Parameters:
    ///   - word: what is done with the bytes, such as `copied`.
    ///   - take: gets each piece before it is written.
    /// - Returns: how many bytes there were.
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
