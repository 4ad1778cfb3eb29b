import Foundation
import SecretMemory
import Testing

@Suite("Secret files")
struct SecretFileTests {
    /// Calls `body` with the path of a new file that has this content and these permissions.
    private func withFile(
        _ content: [UInt8], mode: mode_t = 0o600, _ body: (String) throws -> Void
    ) throws {
        let directory = FileManager.default.temporaryDirectory.appending(component: UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(component: "pin").path
        try Data(content).write(to: URL(filePath: file))
        #expect(unsafe chmod(file, mode) == 0)
        try body(file)
    }

    private func read(_ path: String, maximumCount: Int = 256) throws -> [UInt8] {
        let secret = try SecretBytes(contentsOfFile: path, maximumCount: maximumCount)
        return unsafe secret.withUnsafeBytes { unsafe Array($0) }
    }

    private func reason(_ path: String, maximumCount: Int = 256) -> SecretFileError.Reason? {
        do {
            _ = try SecretBytes(contentsOfFile: path, maximumCount: maximumCount)
            return nil
        } catch {
            return error.reason
        }
    }

    @Test("Reads the file's content without one newline at its end", arguments: ["1234", "1234\n"])
    func content(text: String) throws {
        try withFile(Array(text.utf8)) { try #expect(read($0) == Array("1234".utf8)) }
    }

    @Test("Keeps spaces and non-ASCII bytes of the secret")
    func otherBytes() throws {
        try withFile([0x20, 0xC3, 0xA4, 0xFF, 0x20, 0x0A]) { try #expect(read($0) == [0x20, 0xC3, 0xA4, 0xFF, 0x20]) }
    }

    @Test(
        "Refuses more than one line, a carriage return or a NUL",
        arguments: ["12\n34", "1234\n\n", "1234\r\n", "12\u{0}"])
    func oneLine(text: String) throws {
        try withFile(Array(text.utf8)) { #expect(reason($0) == .moreThanOneLine) }
    }

    @Test("Refuses an empty file and a lone newline", arguments: ["", "\n"])
    func empty(text: String) throws {
        try withFile(Array(text.utf8)) { #expect(reason($0) == .empty) }
    }

    @Test("Accepts a secret of the maximum length, and refuses one more byte")
    func length() throws {
        let longest = [UInt8](repeating: 0x31, count: 64)
        try withFile(longest + [0x0A]) { try #expect(read($0, maximumCount: 64) == longest) }
        try withFile(longest + [0x31]) { #expect(reason($0, maximumCount: 64) == .tooLong(limit: 64)) }
        try withFile(longest + [0x31, 0x0A]) { #expect(reason($0, maximumCount: 64) == .tooLong(limit: 64)) }
        try withFile([UInt8](repeating: 0x31, count: 100_000)) {
            #expect(reason($0, maximumCount: 64) == .tooLong(limit: 64))
        }
    }

    @Test(
        "Refuses a file that others can read, write or run, or that its group can write",
        arguments: [0o604, 0o602, 0o601, 0o644, 0o620, 0o660, 0o666, 0o777] as [mode_t])
    func rights(mode: mode_t) throws {
        try withFile(Array("1234".utf8), mode: mode) {
            #expect(reason($0) == .accessibleToOthers(mode: UInt32(mode)))
        }
    }

    @Test(
        "Accepts a file that only its owner, or its owner and group, can read",
        arguments: [0o600, 0o400, 0o640, 0o440] as [mode_t])
    func goodRights(mode: mode_t) throws {
        try withFile(Array("1234".utf8), mode: mode) { try #expect(read($0) == Array("1234".utf8)) }
    }

    @Test("Refuses a directory, a device, and a pipe without a writer, without blocking")
    func notAFile() throws {
        #expect(reason("/") == .notARegularFile)
        #expect(reason("/dev/zero") == .notARegularFile)
        try withFile([]) { path in
            let pipe = path + ".pipe"
            #expect(unsafe mkfifo(pipe, 0o600) == 0)
            #expect(reason(pipe) == .notARegularFile)
        }
    }

    @Test("Refuses a missing file with the system's reason")
    func missing() {
        #expect(reason("/nonexistent/pin") == .unreadable(ENOENT))
    }

    @Test("Names the file and the remedy in the error, but never the content")
    func message() throws {
        try withFile(Array("8086-secret".utf8), mode: 0o644) { path in
            let error = #expect(throws: SecretFileError.self) { _ = try read(path) }
            let text = String(describing: try #require(error))
            #expect(text.contains(path) && text.contains("0644") && text.contains("chmod"))
            #expect(!text.contains("8086"))
        }
    }
}
