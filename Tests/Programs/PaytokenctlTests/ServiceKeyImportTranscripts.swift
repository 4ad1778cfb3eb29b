import DaemonAPI
import Foundation
import KeySealing
import StrictJSON
import TestSupport
import Testing

@testable import paytokenctl

extension ImportTranscripts {
    @Test("seals a service key without a certificate, and refuses options of merchants' keys with it")
    func serviceKeyImport() async throws {
        let files = try await files()
        try await files.openssl("pkcs8 -topk8 -nocrypt -in key.pem -out AuthKey_2X9R4HXF34.p8")
        try await files.openssl("pkey -in key.pem -pubout -outform DER -out public.der")
        let recipient = KeySealing.Recipient()
        let importKey = Data(recipient.publicKey).base64EncodedString()
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(Sample.status(importKey: importKey)), "POST /v1/keys/import": .ok(Sample.key),
        ])
        let arguments = ["key", "import", "--use", "service", "--private-key", files.path("AuthKey_2X9R4HXF34.p8")]
        let result = try await Command.paytokenctl(arguments, socket: daemon.path)
        #expect(result.status == 0, "\(result)")
        let request = try JSONCoding.decode(KeyImportRequest.self, from: #require(daemon.asked.last).body)
        let publicKey = try bytes(files.path("public.der"))
        #expect(request.use == "service" && request.certificate == nil && request.merchantIdentifier == nil)
        #expect(request.publicKey == Data(publicKey).base64EncodedString())
        let sealed = try #require(request.sealedKeys.first)
        let opened = try recipient.open(
            encapsulatedKey: Array(#require(Data(base64Encoded: sealed.encapsulatedKey))),
            sealed: Array(#require(Data(base64Encoded: sealed.sealedPrivateKey))), authenticating: publicKey)
        let pkcs8 = try bytes(files.path("key.p8"))
        #expect(unsafe opened.withUnsafeBytes { unsafe Array($0) } == pkcs8)

        let asked = daemon.asked.count
        let certified = try await Command.paytokenctl(
            arguments + ["--certificate", files.path("certificate.pem")], socket: daemon.path)
        #expect(certified.status == 64 && certified.error.contains("neither certificate nor merchant"))
        #expect(daemon.asked.count == asked)
    }
}
