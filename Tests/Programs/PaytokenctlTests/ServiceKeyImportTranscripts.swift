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

    @Test("seals a Google Pay key for the merchant at Google, and refuses the options of Apple's keys")
    func googlePayKeyImport() async throws {
        let files = try await files()
        try await files.openssl("pkey -in key.pem -pubout -outform DER -out public.der")
        let importKey = Data(KeySealing.Recipient().publicKey).base64EncodedString()
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(Sample.status(importKey: importKey)), "POST /v1/keys/import": .ok(Sample.key),
        ])
        let arguments = ["key", "import", "--wallet", "google-pay", "--private-key", files.path("key.pem")]
        let merchant = ["--merchant-identifier", "BCR2DN4TEXAMPLE"]
        let result = try await Command.paytokenctl(arguments + merchant, socket: daemon.path)
        #expect(result.status == 0, "\(result)")
        let request = try JSONCoding.decode(KeyImportRequest.self, from: #require(daemon.asked.last).body)
        #expect(request.use == "google-pay" && request.merchantIdentifier == "BCR2DN4TEXAMPLE")
        #expect(request.publicKey == Data(try bytes(files.path("public.der"))).base64EncodedString())
        #expect(request.certificate == nil && request.sealedKeys.count == 1)

        let asked = daemon.asked.count
        let unnamed = try await Command.paytokenctl(arguments, socket: daemon.path)
        #expect(unnamed.status == 64 && unnamed.error.contains("--merchant-identifier"), "\(unnamed)")
        for more in [["--certificate", files.path("certificate.pem")], ["--use", "service"], ["--allow-expired"]] {
            let refused = try await Command.paytokenctl(arguments + merchant + more, socket: daemon.path)
            #expect(refused.status == 64 && refused.error.contains("no certificate"), "\(refused)")
        }
        #expect(daemon.asked.count == asked)
    }
}
