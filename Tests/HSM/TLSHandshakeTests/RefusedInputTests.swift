import Encodings
import Foundation
import TLSHandshake
import TestSupport
import Testing

/// Input that an identity key must not sign: everything except a client's handshake with Apple.
@Suite struct RefusedInputTests {
    private func error(_ bytes: [UInt8]) -> TLSInputError? {
        do {
            _ = try ClientCertificateVerifyInput(parsing: bytes)
            return nil
        } catch { return error }
    }

    private func error(_ draft: HandshakeDraft) -> TLSInputError? { error(draft.bytes) }

    private let spaces = [UInt8](repeating: 0x20, count: 64)
    private let hash = [UInt8](repeating: 7, count: 32)

    // MARK: TLS 1.3

    @Test func aTLS13InputHasAHashOf32Or48BytesAndNothingMore() throws {
        let prefix = spaces + Array("TLS 1.3, client CertificateVerify".utf8) + [0]
        for count in 0...80 where count != 32 && count != 48 {
            #expect(error(prefix + [UInt8](repeating: 0x20, count: count)) == .notClientContent)
        }
        #expect(
            try ClientCertificateVerifyInput(parsing: prefix + hash) == .tls13(transcriptHash: hash))
        for position in prefix.indices.dropFirst() {
            var changed = prefix + hash
            changed[position] ^= 1
            #expect(error(changed) == .notClientContent)
        }
    }

    @Test func aServersCertificateVerifyIsRefused() {
        let content = Array("TLS 1.3, server CertificateVerify".utf8) + [0] + hash
        #expect(error(spaces + content) == .notClientContent)
    }

    /// The signed content of RFC 9261 §5.2.2 begins with the same 64 spaces as TLS 1.3's.
    @Test func anExportedAuthenticatorIsRefused() {
        #expect(error(spaces + Array("Exported Authenticator".utf8) + [0] + hash) == .notClientContent)
    }

    // MARK: Input of other keys

    @Test func aCertificateRequestIsRefused() async throws {
        let directory = try FreshDirectory()
        try await directory.openssl(
            "req -new -newkey rsa:2048 -nodes -subj /CN=x -keyout key.pem -outform DER -out request.der")
        let request = Array(try Data(contentsOf: URL(filePath: directory.path("request.der"))))
        let outer = BERReader(request, .distinguished)
        var reader = outer
        var inner = try outer.elements(of: reader.next())
        let information = try inner.next(BERElement.sequence)
        #expect(error(Array(inner.encoding(of: information))) == .notHandshake)
        #expect(error(request) == .notHandshake)
    }

    @Test func aCheckpointIsRefused() {
        #expect(error(Array(#"{"node":"a","sequence":1,"hash":"00"}"#.utf8)) == .notHandshake)
    }

    @Test func refusesEmptyInput() {
        #expect(error([UInt8]()) == .notHandshake)
    }

    @Test func refusesMoreThan32KiB() {
        #expect(error([1] + [UInt8](repeating: 0, count: 32 << 10)) == .tooLong)
        #expect(error([1] + [UInt8](repeating: 0, count: (32 << 10) - 1)) == .malformed(.clientHello))
    }

    // MARK: Messages of TLS 1.2

    @Test func theDraftIsAHandshake() {
        #expect(error(HandshakeDraft()) == nil)
    }

    @Test(arguments: [0, 1, 2, 4, 5, 6, 7])
    func noOtherMessageMayBeAbsent(index: Int) {
        #expect(error(HandshakeDraft().changed { $0.messages.remove(at: index) }) != nil)
    }

    @Test func theServerKeyExchangeMayBeAbsent() {
        #expect(error(HandshakeDraft().changed { $0.messages.remove(at: 3) }) == nil)
    }

    @Test func acceptsStapledStatusAfterServerCertificate() {
        let status = HandshakeDraft.Message(type: 22, body: [1] + HandshakeDraft.vector24([0x30, 0]))
        #expect(error(HandshakeDraft().changed { $0.messages.insert(status, at: 3) }) == nil)
        for index in [1, 2, 4, 5, 6, 7, 8] {
            #expect(error(HandshakeDraft().changed { $0.messages.insert(status, at: index) }) != nil)
        }
        let others = [
            [2] + HandshakeDraft.vector24([0x30, 0]), [1] + HandshakeDraft.vector24([]),
            [1] + HandshakeDraft.vector24([0x30, 0]) + [0],
        ]
        for body in others {
            let other = HandshakeDraft.Message(type: 22, body: body)
            #expect(
                error(HandshakeDraft().changed { $0.messages.insert(other, at: 3) })
                    == .malformed(.certificateStatus))
        }
    }

    /// The types are HelloRequest, NewSessionTicket, EncryptedExtensions, CertificateVerify, Finished, CertificateURL
    /// and SupplementalData.
    @Test(arguments: [0, 4, 8, 15, 20, 21, 23] as [UInt8])
    func refusesOtherMessageTypes(type: UInt8) {
        for index in 0...8 {
            let draft = HandshakeDraft().changed { $0.messages.insert(.init(type: type, body: []), at: index) }
            #expect(error(draft) != nil)
        }
    }

    @Test func refusesRepeatedOrMisplacedMessages() {
        for index in 0..<8 {
            #expect(error(HandshakeDraft().changed { $0.messages.insert($0.messages[index], at: index) }) != nil)
            #expect(index == 7 || error(HandshakeDraft().changed { $0.messages.swapAt(index, index + 1) }) != nil)
        }
    }

    @Test func noMessageMayHaveMoreOrLessThanItsFields() {
        // Index 3 is the ServerKeyExchange. The parser does not read its content, which depends on the key exchange.
        for index in 0..<8 where index != 3 {
            #expect(error(HandshakeDraft().changed { $0.messages[index].body.append(0) }) != nil)
            if index != 5 { #expect(error(HandshakeDraft().changed { $0.messages[index].body.removeLast() }) != nil) }
        }
    }

    @Test func aClientWithoutACertificateSignsNothing() {
        let draft = HandshakeDraft().changed { $0.messages[6].body = HandshakeDraft.certificates([]) }
        #expect(error(draft) == .noClientCertificate)
    }

    @Test(arguments: [[0x31, 0], [0x30, 0x81, 0], [0x30, 0, 0], [0x30, 1]] as [[UInt8]])
    func aClientsCertificateIsOneElementInDER(certificate: [UInt8]) {
        let draft = HandshakeDraft().changed { $0.messages[6].body = HandshakeDraft.certificates([certificate]) }
        #expect(error(draft) == .malformed(.certificate))
    }

    // MARK: ClientHello and ServerHello of TLS 1.2

    private func error(clientHello extensions: [[UInt8]]) -> TLSInputError? {
        error(HandshakeDraft().changed { $0.messages[0].body = HandshakeDraft.clientHello(extensions: extensions) })
    }

    private func error(serverHello extensions: [[UInt8]]) -> TLSInputError? {
        error(HandshakeDraft().changed { $0.messages[1].body = HandshakeDraft.serverHello(extensions: extensions) })
    }

    private let name = HandshakeDraft.serverNames(["apple-pay-gateway.apple.com"])

    @Test func aClientHelloNamesExactlyOneServer() {
        #expect(error(clientHello: []) == .noServerName)
        #expect(
            error(HandshakeDraft().changed { $0.messages[0].body.removeLast(2 + name.count) }) == .noServerName)
        let two = HandshakeDraft.serverNames(["apple-pay-gateway.apple.com", "example.com"])
        #expect(error(clientHello: [two]) == .unsuitableServerName)
        #expect(error(clientHello: [name, name]) == .malformed(.clientHello))
        let otherType = HandshakeDraft.serverNames(["apple-pay-gateway.apple.com"], nameType: 1)
        #expect(error(clientHello: [otherType]) == .unsuitableServerName)
        #expect(error(clientHello: [HandshakeDraft.extensionOf(0, [])]) == .malformed(.clientHello))
    }

    @Test(arguments: [
        "Apple-pay-gateway.apple.com", "apple-pay-gateway.apple.com.", ".apple.com", "apple..com", "-a.com", "a-.com",
        "127.0.0.1", "::1", "a_b.com", "a b.com", "a.com\0", "bücher.example", "a.com/", "*.apple.com",
        String(repeating: "a", count: 64) + ".com", String(repeating: "a.", count: 127) + "com",
    ])
    func aServersNameIsALowerCaseDNSName(name: String) {
        #expect(error(HandshakeDraft(serverName: name)) == .unsuitableServerName)
    }

    @Test(arguments: ApplePayGatewayHost.allCases)
    func everyHostOfApplesIsKnown(host: ApplePayGatewayHost) throws {
        guard
            case .tls12(let transcript) = try ClientCertificateVerifyInput(
                parsing: HandshakeDraft(serverName: host.name).bytes)
        else { return }
        #expect(try transcript.requireAppleHost() == host)
        #expect(transcript.signatureSchemes == [0x0401, 0x0804])
        #expect(transcript.clientCertificate == [0x30, 1, 7])
    }

    @Test func anotherVersionIsRefused() {
        let versions = HandshakeDraft.extensionOf(43, [3, 4])
        #expect(error(serverHello: [versions]) == .otherVersion)
        for version: [UInt8] in [[3, 0], [3, 1], [3, 2], [3, 4], [2, 0]] {
            #expect(
                error(HandshakeDraft().changed { $0.messages[1].body = HandshakeDraft.serverHello(version: version) })
                    == .otherVersion)
        }
        let suite = HandshakeDraft.serverHello(suite: [0x13, 0x01])
        #expect(error(HandshakeDraft().changed { $0.messages[1].body = suite }) == .otherVersion)
        // The client may offer other versions in addition.
        #expect(error(clientHello: [name, HandshakeDraft.extensionOf(43, [4, 3, 4, 3, 3])]) == nil)
    }

    @Test func aRenegotiationIsRefused() {
        let first = HandshakeDraft.extensionOf(0xFF01, [0])
        let later = HandshakeDraft.extensionOf(0xFF01, [2, 5, 5])
        #expect(error(clientHello: [name, first]) == nil)
        #expect(error(serverHello: [first]) == nil)
        #expect(error(clientHello: [name, later]) == .renegotiation)
        #expect(error(serverHello: [later]) == .renegotiation)
    }

    @Test func aHellosFieldsHaveTheLengthsOfTheRFC() {
        let bodies = [
            HandshakeDraft.clientHello(suites: [], extensions: [name]),
            HandshakeDraft.clientHello(suites: [0xC0], extensions: [name]),
            HandshakeDraft.clientHello(compression: [], extensions: [name]),
            HandshakeDraft.clientHello(compression: [1], extensions: [name]),
        ]
        for body in bodies {
            #expect(error(HandshakeDraft().changed { $0.messages[0].body = body }) == .malformed(.clientHello))
        }
        #expect(
            error(HandshakeDraft().changed { $0.messages[1].body = HandshakeDraft.serverHello(compression: 1) })
                == .malformed(.serverHello))
    }

    @Test func aCertificateRequestsFieldsHaveTheLengthsOfTheRFC() {
        let bodies: [[UInt8]] = [
            [0] + HandshakeDraft.vector16([4, 1]) + HandshakeDraft.vector16([]),
            [1, 1] + HandshakeDraft.vector16([]) + HandshakeDraft.vector16([]),
            [1, 1] + HandshakeDraft.vector16([4, 1, 8]) + HandshakeDraft.vector16([]),
            [1, 1] + HandshakeDraft.vector16([4, 1]) + HandshakeDraft.vector16([0, 0]),
            [1, 1] + HandshakeDraft.vector16([4, 1]) + HandshakeDraft.vector16([0, 2, 1]),
        ]
        for body in bodies {
            #expect(
                error(HandshakeDraft().changed { $0.messages[4].body = body }) == .malformed(.certificateRequest))
        }
    }
}
