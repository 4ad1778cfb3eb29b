import DaemonAPI
import Foundation
import KeySealing
import SecretMemory
import StrictJSON
import TestSupport
import Testing
import TokenForge

@testable import paytokenctl

@Suite("Transcripts: import commands and token init")
struct ImportTranscripts {
    /// Returns a directory with `key.pem`, `key.p8`, `certificate.pem`, `certificate.der` and `request.pem`, which
    /// openssl makes.
    func files() async throws -> FreshDirectory {
        let directory = try FreshDirectory()
        for command in [
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem",
            "pkcs8 -topk8 -nocrypt -in key.pem -outform DER -out key.p8",
            "req -x509 -new -key key.pem -subj /UID=merchant.com.example -days 30 -out certificate.pem",
            "x509 -in certificate.pem -outform DER -out certificate.der",
            "req -new -key key.pem -subj /CN=merchant -out request.pem",
        ] { try await directory.openssl(command) }
        return directory
    }

    func bytes(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: path))) }

    @Test("seals the key of key import to the worker, so that the daemon cannot read it")
    func keyImport() async throws {
        let files = try await files()
        let recipient = KeySealing.Recipient()
        let importKey = Data(recipient.publicKey).base64EncodedString()
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(Sample.status(importKey: importKey)), "POST /v1/keys/import": .ok(Sample.key),
        ])
        let result = try await Command.paytokenctl(
            [
                "key", "import", "--private-key", files.path("key.pem"), "--certificate", files.path("certificate.pem"),
                "--merchant-identifier", "merchant.com.example", "--token", "primary", "--output", "json",
            ], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == Sample.key + "\n")
        #expect(result.error == "")

        let request = try JSONCoding.decode(KeyImportRequest.self, from: #require(daemon.asked.last).body)
        #expect(request.merchantIdentifier == "merchant.com.example")
        #expect(request.allowExpired == false)
        let certificate = try bytes(files.path("certificate.der"))
        #expect(request.certificate.flatMap { Data(base64Encoded: $0) }.map { Array($0) } == certificate)
        let sealed = try #require(request.sealedKeys.first)
        #expect(request.sealedKeys.count == 1)
        #expect(sealed.token == "primary")
        let opened = try recipient.open(
            encapsulatedKey: Array(#require(Data(base64Encoded: sealed.encapsulatedKey))),
            sealed: Array(#require(Data(base64Encoded: sealed.sealedPrivateKey))), authenticating: certificate)
        let pkcs8 = try bytes(files.path("key.p8"))
        #expect(unsafe opened.withUnsafeBytes { unsafe Array($0) } == pkcs8)
    }

    @Test("trusts a daemon run by root, the user or the socket's owner, but not the owner in a directory open to all")
    func socketOwner() throws {
        let directory = try FreshDirectory()
        let path = try directory.write("", to: "admin.sock")
        if geteuid() == 0 { try FileManager.default.setAttributes([.ownerAccountID: 4242], ofItemAtPath: path) }
        let owner: UInt32 = geteuid() == 0 ? 4242 : geteuid()
        for peer in [0, geteuid(), owner] { #expect(SocketOwner(of: path).admits(peer), "\(peer)") }
        #expect(!SocketOwner(of: path).admits(4243))
        let link = directory.path("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        #expect(SocketOwner(of: link).admits(owner))
        try FileManager.default.setAttributes([.posixPermissions: 0o1777], ofItemAtPath: directory.path(""))
        #expect(SocketOwner(of: path).admits(owner) == (owner == geteuid()))
        #expect(!SocketOwner(of: directory.path("absent")).admits(4242))
    }

    @Test("seals the key of a PKCS#12 file with old ciphers to the worker")
    func pkcs12Import() async throws {
        let files = try await files()
        try files.write("s3cret\n", to: "password")
        try await files.openssl(
            "pkcs12 -export -legacy -inkey key.pem -in certificate.pem -passout pass:s3cret -out old.p12")
        let recipient = KeySealing.Recipient()
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(Sample.status(importKey: Data(recipient.publicKey).base64EncodedString())),
            "POST /v1/keys/import": .ok(Sample.key),
        ])
        let arguments = ["key", "import", "--pkcs12", files.path("old.p12"), "--password-file", files.path("password")]
        let result = try await Command.paytokenctl(arguments + ["--output", "json"], socket: daemon.path)
        #expect(result.status == 0, "\(result)")
        #expect(result.output == Sample.key + "\n")
        #expect(result.error == "")

        let request = try JSONCoding.decode(KeyImportRequest.self, from: #require(daemon.asked.last).body)
        let certificate = try bytes(files.path("certificate.der"))
        #expect(request.certificate.flatMap { Data(base64Encoded: $0) }.map { Array($0) } == certificate)
        let sealed = try #require(request.sealedKeys.first)
        let opened = try recipient.open(
            encapsulatedKey: Array(#require(Data(base64Encoded: sealed.encapsulatedKey))),
            sealed: Array(#require(Data(base64Encoded: sealed.sealedPrivateKey))), authenticating: certificate)
        let pkcs8 = try bytes(files.path("key.p8"))
        #expect(unsafe opened.withUnsafeBytes { unsafe Array($0) } == pkcs8)

        // Without OpenSSL's legacy provider, the command still decrypts files with modern ciphers.
        let modules = ["OPENSSL_MODULES": files.path("nowhere")]
        let asked = daemon.asked.count
        let old = try await Command.paytokenctl(arguments, socket: daemon.path, environment: modules)
        #expect(old.status == 66)
        #expect(old.error.contains("an old cipher (pbeWithSHA1And40BitRC2-CBC), for which OpenSSL's legacy provider"))
        #expect(daemon.asked.count == asked)
        try await files.openssl("pkcs12 -export -inkey key.pem -in certificate.pem -passout pass:s3cret -out old.p12")
        let modern = try await Command.paytokenctl(arguments, socket: daemon.path, environment: modules)
        #expect(modern.status == 0, "\(modern)")
    }

    @Test("reports each fault of a PKCS#12 file with a message and exit status before it asks the daemon")
    func wrongBundles() async throws {
        let files = try await files()
        try files.write("s3cret", to: "password")
        try files.write("other", to: "wrong")
        try files.write("s3cret", to: "open", mode: 0o644)
        let export = "pkcs12 -export -passout pass:s3cret"
        try await files.openssl("\(export) -inkey key.pem -in certificate.pem -out good.p12")
        try await files.openssl("\(export) -inkey key.pem -nocerts -out key.p12")
        try await files.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out other.pem -subj /CN=o")
        let cases: [(arguments: [String], status: Int32, message: String)] = [
            (["good.p12", "wrong"], 66, "does not open with the password in"),
            (["good.p12", "open"], 77, "holds a secret, but others may read or change it (mode 0644)"),
            (["good.p12", "absent"], 66, "does not exist."),
            (["key.p12", "password"], 66, "holds a private key without a certificate"),
            (["good.p12", "password", "other.pem"], 1, "is not for the private key in"),
            (["key.pem", "password"], 66, "is a private key, not a PKCS#12 bundle"),
        ]
        for wrong in cases {
            var arguments = ["key", "import", "--pkcs12", files.path(wrong.arguments[0])]
            arguments += ["--password-file", files.path(wrong.arguments[1])]
            if wrong.arguments.count > 2 { arguments += ["--certificate", files.path(wrong.arguments[2])] }
            let result = try await Command.paytokenctl(arguments, socket: "/nowhere")
            #expect(result.status == wrong.status, "\(wrong.message)")
            #expect(result.error.contains(wrong.message), "\(result.error)")
            #expect(!result.error.contains("s3cret"))
        }
    }

    @Test("imports the merchant's certificate from a PKCS#7 file, and names its subject and issuer")
    func bundleImport() async throws {
        let files = try FreshDirectory()
        let (authority, merchant) = (try SharedForge.authority, try SharedForge.ecMerchant)
        let chain = [authority.developerRelations.certificate, merchant.certificate]
        try files.write(ForgedCertificateBundle.pkcs7(chain, indefiniteLengths: true), to: "merchant.p7b")
        let daemon = try await FakeDaemon(["POST /v1/certificates": .ok(Sample.key)])
        let result = try await Command.paytokenctl(
            ["certificate", "import", files.path("merchant.p7b"), "--output", "json"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == Sample.key + "\n")
        #expect(result.error.hasPrefix("\(files.path("merchant.p7b")): took one of 2 certificates: Apple Pay Payment"))
        #expect(result.error.contains("signed by Forge Worldwide Developer Relations CA - G2"))
        let request = try JSONCoding.decode(CertificateImportRequest.self, from: #require(daemon.asked.last).body)
        #expect(Data(base64Encoded: request.certificate).map(Array.init) == merchant.certificate)

        try files.write(
            ForgedCertificateBundle.pkcs7([authority.root.certificate] + chain.prefix(1)), to: "merchant.p7b")
        let none = try await Command.paytokenctl(
            ["certificate", "import", files.path("merchant.p7b")], socket: daemon.path)
        #expect(none.status == 66)
        #expect(none.error.contains("holds 2 certificates, but no merchant's certificate of Apple Pay among them"))
    }

    @Test("seals the key separately to the worker of each --token, and sends one request")
    func severalTokens() async throws {
        let files = try await files()
        let (north, south) = (KeySealing.Recipient(), KeySealing.Recipient())
        func status(_ name: String, _ recipient: KeySealing.Recipient) -> String {
            let key = Data(recipient.publicKey).base64EncodedString()
            return #"{"name":"\#(name)","condition":"ready","shortcomings":[],"importKey":"\#(key)"}"#
        }
        let one = Sample.status()
        let hsmTokens = try #require(one.range(of: #"("tokens":\[).*?(\],"ledger")"#, options: .regularExpression))
        let several = one.replacingCharacters(
            in: hsmTokens, with: #""tokens":["# + status("north", north) + "," + status("south", south) + #"],"ledger""#
        )
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(several), "POST /v1/keys/import": .ok(Sample.key),
        ])
        let command = [
            "key", "import", "--private-key", files.path("key.pem"), "--certificate", files.path("certificate.pem"),
        ]
        let result = try await Command.paytokenctl(
            command + ["--token", "south", "--token", "north"], socket: daemon.path)
        #expect(result.status == 0, "\(result)")
        let request = try JSONCoding.decode(KeyImportRequest.self, from: #require(daemon.asked.last).body)
        #expect(request.sealedKeys.map(\.token) == ["south", "north"])
        let certificate = try bytes(files.path("certificate.der"))
        for (sealed, recipient) in zip(request.sealedKeys, [south, north]) {
            _ = try recipient.open(
                encapsulatedKey: Array(#require(Data(base64Encoded: sealed.encapsulatedKey))),
                sealed: Array(#require(Data(base64Encoded: sealed.sealedPrivateKey))), authenticating: certificate)
        }
        // With two HSM tokens, the command requires --token.
        let unnamed = try await Command.paytokenctl(command, socket: daemon.path)
        #expect(unnamed.status == 64)
        #expect(unnamed.error.contains("several HSM tokens: north, south"), "\(unnamed)")
    }

    @Test("passes --dry-run and --allow-expired to the daemon")
    func options() async throws {
        let files = try await files()
        let importKey = Data(KeySealing.Recipient().publicKey).base64EncodedString()
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(Sample.status(importKey: importKey)),
            "POST /v1/keys/import?dry_run=true": .ok(Sample.key),
            "POST /v1/certificates?dry_run=true": .ok(Sample.key),
        ])
        let key = try await Command.paytokenctl(
            [
                "key", "import", "--private-key", files.path("key.pem"), "--certificate", files.path("certificate.der"),
                "--allow-expired", "--dry-run",
            ], socket: daemon.path)
        #expect(key.status == 0)
        #expect(key.error == "Dry run: the key can be imported. Nothing was changed.\n")
        #expect(try JSONCoding.decode(KeyImportRequest.self, from: #require(daemon.asked.last).body).allowExpired)
        let certificate = try await Command.paytokenctl(
            ["certificate", "import", files.path("certificate.pem"), "--allow-expired", "--dry-run"],
            socket: daemon.path)
        #expect(certificate.status == 0)
        let request = try JSONCoding.decode(CertificateImportRequest.self, from: #require(daemon.asked.last).body)
        #expect(request.allowExpired)
        #expect(try Data(base64Encoded: request.certificate).map(Array.init) == bytes(files.path("certificate.der")))
    }

    @Test("prints the daemon's reason for refusing a certificate")
    func unsuitable() async throws {
        let files = try await files()
        let daemon = try await FakeDaemon([
            "POST /v1/certificates": .refusal(
                422, "certificate_unsuitable", "This is a Merchant Identity certificate.")
        ])
        let result = try await Command.paytokenctl(
            ["certificate", "import", files.path("certificate.pem")], socket: daemon.path)
        #expect(result.status == 1)
        #expect(result.error == "certificate_unsuitable: This is a Merchant Identity certificate.\n")
    }

    @Test("refuses wrong files before it asks the daemon")
    func wrongFiles() async throws {
        let files = try await files()
        let (key, certificate, request) = (
            files.path("key.pem"), files.path("certificate.pem"), files.path("request.pem")
        )
        let readable = try files.write(bytes(key), to: "readable.pem", mode: 0o644)
        let cases: [(key: String, certificate: String, status: Int32, message: String)] = [
            (key, request, 66, "\(request) is a certificate signing request, not a certificate"),
            (key, key, 66, "\(key) is a private key, not a certificate"),
            (readable, certificate, 77, "\(readable) holds a secret, but others may read or change it (mode 0644)"),
            (files.path("absent"), certificate, 66, "\(files.path("absent")) does not exist."),
        ]
        for wrong in cases {
            let result = try await Command.paytokenctl(
                ["key", "import", "--private-key", wrong.key, "--certificate", wrong.certificate], socket: "/nowhere")
            #expect(result.status == wrong.status, "\(wrong.message)")
            #expect(result.error.hasPrefix(wrong.message), "\(result.error)")
        }
    }

    @Test("refuses an import into an HSM token that is not ready")
    func notReady() async throws {
        let files = try await files()
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(Sample.status(condition: "unavailable", message: "No such token."))
        ])
        let result = try await Command.paytokenctl(
            [
                "key", "import", "--private-key", files.path("key.pem"), "--certificate", files.path("certificate.pem"),
            ], socket: daemon.path)
        #expect(result.status == 75)
        #expect(result.error == "hsm_unavailable: the HSM token primary is unavailable: No such token.\n")
    }

    @Test("says how to repeat an import that waits for a second person's approval")
    func waits() async throws {
        let files = try await files()
        let importKey = Data(KeySealing.Recipient().publicKey).base64EncodedString()
        let pending = #"{"status":"pending","approval":"0a1b2c3d4e5f6071","expires":"2100-01-01T00:00:00Z"}"#
        let daemon = try await FakeDaemon([
            "GET /v1/status": .ok(Sample.status(importKey: importKey)),
            "POST /v1/keys/import": FakeDaemon.Answer(status: 202, body: Array(pending.utf8)),
        ])
        let result = try await Command.paytokenctl(
            [
                "key", "import", "--private-key", files.path("key.pem"), "--certificate", files.path("certificate.pem"),
            ], socket: daemon.path)
        #expect(result.status == 75 && result.output == "")
        #expect(
            result.error == """
                pending: a second person must permit this before 2100-01-01T00:00:00Z: \
                paytokenctl approval approve 0a1b2c3d4e5f6071
                Nothing is imported yet: once it is approved, repeat the same command with --approval 0a1b2c3d4e5f6071

                """)
    }

    /// Makes a directory with paytokenctl and a shell script in place of the worker.
    ///
    /// Another process copies the files. Programs that this process starts at the same time would otherwise inherit a
    /// descriptor open for writing. Linux does not run a file that is open for writing (ETXTBSY).
    private func installation(worker: String, at place: String) async throws -> (FreshDirectory, String) {
        let directory = try FreshDirectory()
        try directory.makeDirectory("bin")
        try directory.makeDirectory("libexec/paytokend")
        let program = directory.path("bin/paytokenctl")
        let script = try directory.write("#!/bin/sh\n\(worker)\n", to: "worker", mode: 0o755)
        let copied = try await Program.run(
            Program.installed("sh"),
            [
                "-c", "cp \"$1\" \"$2\" && cp -p \"$3\" \"$4\"", "sh", Program.built("paytokenctl"), program, script,
                directory.path(place),
            ])
        #expect(copied.status == 0, "\(copied)")
        return (directory, program)
    }

    private let initialisation = [
        "token", "init", "--module", "/lib/module.so", "--label", "a label", "--so-pin-file", "so", "--pin-file", "pin",
    ]

    @Test(
        "passes all arguments of token init to the worker, and prints the worker's result",
        arguments: [
            "bin/paytokend-hsm", "libexec/paytokend/paytokend-hsm",
        ])
    func tokenInit(place: String) async throws {
        let (directory, program) = try await installation(
            worker:
                #"printf '%s\n' "$@" "$SOFTHSM2_CONF" >&2; echo '{"label":"a label","serialNumber":"1a2b","slot":7}'"#,
            at: place)
        let result = try await Program.run(
            program, initialisation + ["--init-args", "x=y"], environment: ["SOFTHSM2_CONF": "/conf"])
        #expect(result.status == 0, "\(directory.path)")
        #expect(result.output == "label         a label\nserialNumber  1a2b\nslot          7\n")
        let passed = [
            "token-init", "--module", "/lib/module.so", "--label", "a label", "--so-pin-file", "so", "--pin-file",
            "pin",
            "--init-args", "x=y", "/conf",
        ]
        #expect(result.error == passed.joined(separator: "\n") + "\n")
        let json = try await Program.run(program, initialisation + ["--output", "json"])
        #expect(json.output == #"{"label":"a label","serialNumber":"1a2b","slot":7}"# + "\n")
    }

    @Test("exits with the worker's status from token init")
    func workerFailure() async throws {
        let (directory, program) = try await installation(
            worker: "echo No slot is free. >&2; exit 69", at: "bin/paytokend-hsm")
        let failed = try await Program.run(program, initialisation)
        #expect(failed.status == 69, "\(directory.path)")
        #expect(failed.error == "No slot is free.\n")
        let (other, crashing) = try await installation(worker: "kill -SEGV $$", at: "bin/paytokend-hsm")
        let crashed = try await Program.run(crashing, initialisation)
        #expect(crashed.status == 70, "\(other.path)")
        #expect(crashed.error.contains("was ended by signal 11"))
    }

    @Test("names the paths it searched if token init finds no worker")
    func noWorker() async throws {
        let (directory, program) = try await installation(worker: "exit 0", at: "bin/something-else")
        let result = try await Program.run(program, initialisation)
        #expect(result.status == 66)
        #expect(result.error.contains("neither \(directory.path("bin/paytokend-hsm"))"))
    }

    @Test("has the worker check everything with token init --dry-run, and exits with its status")
    func dryRun() async throws {
        let (directory, program) = try await installation(worker: #"printf '%s\n' "$@" >&2"#, at: "bin/paytokend-hsm")
        let fine = try await Program.run(program, initialisation + ["--dry-run"])
        #expect(fine.status == 0, "\(directory.path)")
        #expect(fine.error.contains("--dry-run\n") && fine.error.contains("Nothing was changed."))
        let (other, refusing) = try await installation(
            worker: "echo There is an HSM token already. >&2; exit 1", at: "bin/paytokend-hsm")
        let refused = try await Program.run(refusing, initialisation + ["--dry-run"])
        #expect(refused.status == 1, "\(other.path)")
        #expect(refused.error == "There is an HSM token already.\n")
    }
}
