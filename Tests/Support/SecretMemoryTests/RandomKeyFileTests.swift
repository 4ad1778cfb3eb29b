import Foundation
import SecretMemory
import TestSupport
import Testing

@Suite("A file with a random key")
struct RandomKeyFileTests {
    private let directory: FreshDirectory
    private let file: RandomKeyFile

    init() throws {
        directory = try FreshDirectory()
        file = RandomKeyFile(path: directory.path("key"))
    }

    private func bytes() throws -> [UInt8] {
        let key = try file.read()
        return unsafe key.withUnsafeBytes { unsafe Array($0) }
    }

    @Test("is made whole, with another key each time, and only its owner can read it")
    func made() throws {
        #expect(!file.exists)
        try file.create()
        let first = try bytes()
        #expect(file.exists && first.count == 32)
        #expect(try bytes() == first)
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(try String(contentsOfFile: file.path, encoding: .utf8).wholeMatch(of: /[0-9a-f]{64}\n/) != nil)
        #expect(!FileManager.default.fileExists(atPath: file.path + ".partial"))
        try file.create()
        #expect(try bytes() != first)
    }

    @Test("is read as openssl rand -hex 32 writes it, in either case")
    func digits() throws {
        for text in [
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
            "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
        ] {
            try directory.write(text, to: "key")
            #expect(try bytes() == Array(0..<32))
        }
    }

    @Test(
        "is refused if it has too few or too many digits, or other characters",
        arguments: [
            String(repeating: "a", count: 62), String(repeating: "a", count: 66), String(repeating: "g", count: 64),
        ])
    func malformed(text: String) throws {
        try directory.write(text, to: "key")
        #expect(throws: RandomKeyFile.Fault.malformed(path: file.path)) { _ = try file.read() }
    }

    @Test("stays as it was if a new one cannot be written")
    func failure() throws {
        try file.create()
        let first = try bytes()
        try FileManager.default.createDirectory(atPath: file.path + ".partial", withIntermediateDirectories: false)
        #expect(throws: RandomKeyFile.SystemCallFault.self) { try file.create() }
        #expect(try bytes() == first)
    }
}
