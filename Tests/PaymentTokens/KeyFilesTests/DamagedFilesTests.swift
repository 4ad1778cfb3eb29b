import Foundation
import KeyFiles
import TestSupport
import Testing

@Suite("Damaged, hidden and oversized files")
struct DamagedFilesTests {
    @Test("refuses a PEM block without its END line")
    func cutOff() async throws {
        let files = try await OpenSSLFiles.ec()
        let lines = try files.text("ec.pem").split(separator: "\n")
        try files.directory.write(lines.dropLast().joined(separator: "\n"), to: "cut.pem")
        let error = try #require(files.privateKeyError("cut.pem"))
        #expect(error.message.contains("is cut off: its block PRIVATE KEY has no line -----END PRIVATE KEY-----"))
    }

    @Test("refuses a PEM block that is not base64")
    func notBase64() async throws {
        let files = try await OpenSSLFiles.ec()
        let pem = try files.text("ec.pem")
        for text in [
            pem.replacing("MIG", with: "M!G"), pem.replacing("MIG", with: "MG"),
            "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
        ] {
            try files.directory.write(text, to: "wrong.pem")
            #expect(try #require(files.privateKeyError("wrong.pem")).message.contains("is not base64"))
        }
    }

    @Test("refuses a truncated key, or one with bytes after it")
    func notWhole() async throws {
        let files = try await OpenSSLFiles.ec()
        let der = try files.bytes("ec.p8")
        for bytes in [Array(der.dropLast(4)), der + [0]] {
            try files.directory.write(bytes, to: "wrong.der")
            #expect(try #require(files.privateKeyError("wrong.der")).kind == .unsuitable)
        }
    }

    @Test("refuses a key file whose public key belongs to another private key")
    func inconsistent() async throws {
        let (mine, other) = (try await OpenSSLFiles.ec(), try await OpenSSLFiles.ec())
        // P-256 keys in openssl's PKCS#8 end in 64 bytes of coordinates.
        let mixed = try mine.bytes("ec.p8").dropLast(64) + other.bytes("ec.p8").suffix(64)
        try mine.directory.write(Array(mixed), to: "mixed.p8")
        #expect(try #require(mine.privateKeyError("mixed.p8")).message.contains("do not belong together"))
    }

    @Test(
        "refuses a private key that others may read or change, and names the chmod command to run",
        arguments: [0o644, 0o604, 0o601, 0o660, 0o666])
    func exposed(mode: Int) async throws {
        let files = try await OpenSSLFiles.ec()
        let path = files.path("ec.pem")
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        let error = try #require(files.privateKeyError("ec.pem"))
        #expect(error.kind == .exposed)
        #expect(error.message.contains("mode 0\(String(mode, radix: 8))"))
        #expect(error.message.hasSuffix("Run: chmod 600 \(path)"))
    }

    @Test(
        "accepts a private key that only its owner, or its owner and group, can read",
        arguments: [0o400, 0o600, 0o640])
    func hidden(mode: Int) async throws {
        let files = try await OpenSSLFiles.ec()
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: files.path("ec.pem"))
        #expect(files.privateKeyError("ec.pem") == nil)
    }

    @Test("accepts a certificate that everyone may read")
    func publicCertificate() async throws {
        let files = try await OpenSSLFiles.everything()
        let path = files.path("certificate.pem")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        #expect(files.certificateError("certificate.pem") == nil)
    }

    @Test("explains why a file cannot be read")
    func unreadable() throws {
        let files = try OpenSSLFiles()
        try files.directory.write([], to: "empty")
        try files.directory.makeDirectory("directory")
        let expected = [
            "absent": "does not exist.", "empty": "is empty.", "directory": "is a directory, not a file.",
        ]
        for (name, sentence) in expected {
            for error in [files.privateKeyError(name), files.certificateError(name)] {
                #expect(error?.kind == .unreadable)
                #expect(error?.message == "\(files.path(name)) \(sentence)")
            }
        }
    }

    @Test("reads 64 KiB, and refuses one byte more")
    func bounds() async throws {
        let files = try await OpenSSLFiles.ec()
        let pem = try files.text("ec.pem")
        let padding = 65536 - pem.utf8.count
        try files.directory.write(String(repeating: "\n", count: padding) + pem, to: "largest.pem")
        #expect(files.privateKeyError("largest.pem") == nil)
        try files.directory.write(String(repeating: "\n", count: padding + 1) + pem, to: "larger.pem")
        let error = try #require(files.privateKeyError("larger.pem"))
        #expect(error.kind == .unreadable)
        #expect(error.message.contains("larger than 65536 bytes"))
    }

    @Test("refuses an endless device such as /dev/zero")
    func endless() {
        #expect(throws: KeyFileError.self) { _ = try CertificateFile(path: "/dev/zero") }
    }

    @Test("never includes part of the file in an error message")
    func silent() async throws {
        let files = try await OpenSSLFiles.ec()
        let pem = try files.text("ec.pem")
        let body = pem.split(separator: "\n")[1]
        let variants = [
            pem.replacing("PRIVATE KEY", with: "SECRET THING"), pem.replacing("-----END", with: "----END"),
            String(body),
            pem.replacing("\n-----END", with: "=\n-----END"),
            "-----BEGIN PRIVATE KEY-----\n\(body)\n-----END \(body)-----",
        ]
        for text in variants {
            try files.directory.write(text, to: "variant")
            let error = try #require(files.privateKeyError("variant"))
            #expect(!error.message.contains(body.prefix(12)), "\(error.message)")
        }
    }

    @Test("returns an error or a key, without a crash, for five thousand damaged files")
    func mutations() async throws {
        let files = try await OpenSSLFiles.everything()
        let originals = try ["ec.pem", "ec.p8", "certificate.der", "request.der", "bundle.p12", "public.pem"].map(
            files.bytes)
        var generator = SeededGenerator(seed: 2)
        var refused = 0
        for round in 0..<2500 {
            var bytes = originals[round % originals.count]
            for _ in 0...Int.random(in: 0...3, using: &generator) {
                let index = Int.random(in: bytes.indices, using: &generator)
                bytes[index] = UInt8.random(in: 0...255, using: &generator)
            }
            if Bool.random(using: &generator) {
                bytes = Array(bytes.prefix(Int.random(in: 1...bytes.count, using: &generator)))
            }
            try files.directory.write(bytes, to: "mutated")
            if files.privateKeyError("mutated") != nil { refused += 1 }
            if files.certificateError("mutated") != nil { refused += 1 }
        }
        #expect(refused > 4000)
    }
}
