import Encodings
import NIOSSL
import TLSHandshake
import TestSupport
import Testing

/// Handshakes of swift-nio-ssl, which the gateway uses, with OpenSSL's server and with a swift-nio-ssl server.
@Suite struct RecordedHandshakeTests {
    private static let recorded = Task { try await RecordedServers() }

    private func recorder(_ servers: RecordedServers, _ version: TLSVersion) -> HandshakeRecorder {
        HandshakeRecorder(credentials: servers.credentials, version: version)
    }

    @Test(arguments: ["rsa", "ec"])
    func aTLS12HandshakeWithOpenSSLIsRead(certificate: String) async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withOpenSSL(certificate, ["-tls1_2"]) { port in
            try await recorder(servers, .tlsv12).record(port: port)
        }
        try expectTLS12(bytes, servers)
        #expect(HandshakeDraft(bytes).messages.map(\.type) == [1, 2, 11, 12, 13, 14, 11, 16])
    }

    @Test func theKeyExchangeOfRSAHasNoServerKeyExchange() async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withOpenSSL("rsa", ["-tls1_2", "-cipher", "AES128-GCM-SHA256"]) { port in
            var recorder = recorder(servers, .tlsv12)
            recorder.cipherSuites = [.TLS_RSA_WITH_AES_128_GCM_SHA256]
            return try await recorder.record(port: port)
        }
        try expectTLS12(bytes, servers)
        #expect(HandshakeDraft(bytes).messages.map(\.type) == [1, 2, 11, 13, 14, 11, 16])
    }

    @Test(arguments: ["rsa", "ec"])
    func aTLS12HandshakeWithNIOSSLIsRead(certificate: String) async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withNIOSSL(certificate) { port in
            try await recorder(servers, .tlsv12).record(port: port)
        }
        try expectTLS12(bytes, servers)
    }

    @Test(arguments: [("TLS_AES_128_GCM_SHA256", 32), ("TLS_AES_256_GCM_SHA384", 48)])
    func aTLS13HandshakeIsRead(suite: String, hashBytes: Int) async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withOpenSSL("ec", ["-tls1_3", "-ciphersuites", suite]) { port in
            try await recorder(servers, .tlsv13).record(port: port)
        }
        let input = try ClientCertificateVerifyInput(parsing: bytes)
        #expect(input == .tls13(transcriptHash: Array(bytes.suffix(hashBytes))))
        #expect(input.permits(.pssSHA256))
        #expect(!input.permits(.pkcs1SHA256))
    }

    @Test func aTLS13HandshakeWithNIOSSLIsRead() async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withNIOSSL("rsa") { port in
            try await recorder(servers, .tlsv13).record(port: port)
        }
        guard case .tls13 = try ClientCertificateVerifyInput(parsing: bytes) else {
            Issue.record("not read as TLS 1.3")
            return
        }
    }

    @Test func theServerDecidesWhichAlgorithmsTLS12Permits() async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withOpenSSL("ec", ["-tls1_2", "-client_sigalgs", "RSA+SHA256"]) { port in
            try await recorder(servers, .tlsv12).record(port: port)
        }
        let input = try ClientCertificateVerifyInput(parsing: bytes)
        #expect(input.permits(.pkcs1SHA256))
        #expect(!input.permits(.pssSHA256))
    }

    @Test func aHandshakeWithAnotherHostIsNotWithApple() async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withOpenSSL("ec", ["-tls1_2"]) { port in
            var recorder = recorder(servers, .tlsv12)
            recorder.serverName = "apple-pay-gateway.apple.com.example"
            return try await recorder.record(port: port)
        }
        let transcript = try transcript(bytes)
        #expect(transcript.serverName == "apple-pay-gateway.apple.com.example")
        #expect(throws: TLSInputError.otherHost) { try transcript.requireAppleHost() }
    }

    @Test(arguments: [(nil, TLSInputError.noServerName), ("Apple-Pay-Gateway.apple.com", .unsuitableServerName)])
    func aHandshakeWithoutASuitableNameIsRefused(name: String?, error: TLSInputError) async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withOpenSSL("ec", ["-tls1_2"]) { port in
            var recorder = recorder(servers, .tlsv12)
            recorder.serverName = name
            return try await recorder.record(port: port)
        }
        #expect(throws: error) { try ClientCertificateVerifyInput(parsing: bytes) }
    }

    @Test func refusesPartsOfTranscript() async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withOpenSSL("rsa", ["-tls1_2"]) { port in
            try await recorder(servers, .tlsv12).record(port: port)
        }
        for length in 0..<bytes.count {
            #expect(throws: TLSInputError.self) {
                try ClientCertificateVerifyInput(parsing: Array(bytes.prefix(length)))
            }
        }
        // Suffixes of a handshake, and handshakes with bytes after them, are refused too.
        for length in 1..<bytes.count {
            #expect(throws: TLSInputError.self) {
                try ClientCertificateVerifyInput(parsing: Array(bytes.dropFirst(length)))
            }
        }
        #expect(throws: TLSInputError.trailingBytes) { try ClientCertificateVerifyInput(parsing: bytes + [0]) }
        #expect(throws: TLSInputError.trailingBytes) { try ClientCertificateVerifyInput(parsing: bytes + bytes) }
    }

    /// Each change of a byte is refused, has no effect, or changes only the value that contains the byte.
    @Test func byteChangeAffectsOnlyItsValue() async throws {
        let servers = try await Self.recorded.value
        let bytes = try await servers.withOpenSSL("ec", ["-tls1_2"]) { port in
            try await recorder(servers, .tlsv12).record(port: port)
        }
        let original = try transcript(bytes)
        let name = try #require(bytes.firstRange(of: Array(original.serverName.utf8)))
        // The server has a different certificate, so the client's occurs once.
        let certificate = try #require(bytes.firstRange(of: original.clientCertificate))
        let schemes = try #require(
            bytes.ranges(of: original.signatureSchemes.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }).last)
        var survivors = 0
        for position in bytes.indices {
            for change: UInt8 in [0x01, 0x02, 0x10, 0x80, 0xFF] {
                var changed = bytes
                changed[position] ^= change
                guard case .tls12(let read)? = try? ClientCertificateVerifyInput(parsing: changed) else { continue }
                survivors += 1
                #expect(name.contains(position) == (read.serverName != original.serverName))
                #expect(certificate.contains(position) == (read.clientCertificate != original.clientCertificate))
                #expect(schemes.contains(position) == (read.signatureSchemes != original.signatureSchemes))
                if read.serverName != original.serverName {
                    #expect(throws: TLSInputError.otherHost) { try read.requireAppleHost() }
                }
            }
        }
        // The parser accepts any bytes in random values, key shares, signatures and certificates.
        #expect(survivors > 1000)
    }

    private func expectTLS12(_ bytes: [UInt8], _ servers: RecordedServers) throws {
        let transcript = try transcript(bytes)
        #expect(try transcript.requireAppleHost() == .production)
        #expect(transcript.clientCertificate == servers.credentials.certificate)
        let input = ClientCertificateVerifyInput.tls12(transcript)
        #expect(TLSSignatureAlgorithm.allCases.allSatisfy(input.permits))
    }

    private func transcript(_ bytes: [UInt8]) throws -> TLS12Transcript {
        guard case .tls12(let transcript) = try ClientCertificateVerifyInput(parsing: bytes) else {
            throw TLSInputError.notHandshake
        }
        return transcript
    }
}
