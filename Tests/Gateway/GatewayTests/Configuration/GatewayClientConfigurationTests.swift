import AccessControl
import ConfigurationFile
import Foundation
import HTTPListener
import TestSupport
import Testing

@testable import Gateway

extension GatewayConfigurationTests {
    @Test(
        "reports each problem of a client with its line",
        arguments: [
            ("operations: [session]", "operations: [pay]", "1 processors: is missing, but shop has the operation pay"),
            (
                "operations: [session]", "operations: [decrypt, session]",
                "5 clients[0].operations: has decrypt, which returns card data, but the client has a bearer key"
            ),
            (
                "operations: [session]", "operations: [decrypt, session]",
                "1 processors: is missing, but shop has the operation decrypt"
            ),
            (
                "operations: [session]", "operations: [sesion]",
                "5 clients[0].operations[0]: “sesion” is not known; did you"
            ),
            ("operations: [session]", "operations: []", "5 clients[0].operations: is missing or empty"),
            ("domains: [shop.example]", "", "2 clients[0].domains: is missing"),
            ("domains: [shop.example]", "domains: [https://shop.example]", "6 clients[0].domains[0]: must be a domain"),
            ("domains: [shop.example]", "domains: [\"shop.example:443\"]", "6 clients[0].domains[0]: must be a domain"),
            ("domains: [shop.example]", "domains: [\"*\"]", "6 clients[0].domains[0]: must be a domain"),
            ("domains: [shop.example]", "domains: [10.0.0.1]", "6 clients[0].domains[0]: must be a domain"),
            ("merchants: [\"*\"]", "merchants: []", "4 clients[0].merchants: is missing or empty"),
            ("merchants: [\"*\"]", "merchants:", "4 clients[0].merchants: has no value"),
            (
                "merchants: [\"*\"]", "merchants: [" + Array(repeating: "a", count: 101).joined(separator: ", ") + "]",
                "4 clients[0].merchants: has more than 100 patterns"
            ),
            (
                "merchants: [\"*\"]", "merchants: [" + String(repeating: "m", count: 256) + "]",
                "4 clients[0].merchants: has more than 100 patterns, or one that is not 1 to 255 bytes long"
            ),
            ("key_sha256: \"", "key_sha256: \"0", "3 clients[0].key_sha256: must be a SHA-256"),
            ("key_sha256: \"", "key_sha256: []\n    # \"", "3 clients[0].key_sha256: must have 1 to 10 elements"),
            (
                "key_sha256: \"", "key_sha256: [\"\(digest("0b"))\", \"0c\"]\n    # \"",
                "3 clients[0].key_sha256[1]: must be a SHA-256"
            ),
            (
                "key_sha256: \"", "key_sha256: [\"\(digest("0b"))\", \"\(digest("0B"))\"]\n    # \"",
                "2 clients[0].name: the client has the same credential twice"
            ),
            (
                "key_sha256: \"", "certificate_sha256: [\"\(digest("0b"))\"]\n    key_sha256: \"",
                "2 clients: shop authenticates with a certificate"
            ),
            ("key_sha256: \"", "since: 2026-13-01\n    key_sha256: \"", "3 clients[0].since: must be a date or a time"),
            ("key_sha256: \"", "since: yesterday\n    key_sha256: \"", "3 clients[0].since: must be a date or a time"),
            ("key_sha256: \"", "since: 2226-01-01\n    key_sha256: \"", "3 clients[0].since: is in the future"),
            ("key_sha256: \"", "certificate_san: \"x", "3 clients[0].certificate_san: needs listener.tls.client_ca"),
            (
                "key_sha256: \"", "certificate_san: \"*.",
                "3 clients[0].certificate_san: is a pattern, which no certificate"
            ),
            ("key_sha256: \"", "certificate_sha256: \"", "2 clients: shop authenticates with a certificate"),
            ("name: shop", "name: \"s h o p\"", "2 clients[0].name: must be 1 to 64 letters"),
            (
                "    domains: [shop.example]", "    domains: [shop.example]\n    require_expected: [price]",
                "7 clients[0].require_expected[0]: “price” is not known"
            ),
        ])
    func saysOfClients(old: String, new: String, problem: String) {
        let found = problems(Self.minimum.replacing(old, with: new))
        #expect(found.contains { $0.hasPrefix(problem) }, "\(found)")
    }

    private static func digest(_ byte: String) -> String { String(repeating: byte, count: 32) }

    @Test("reads several keys of a client, and the time since which it has its name")
    func severalKeys() throws {
        func since(_ text: String) throws -> TimeInterval? {
            try load(
                Self.minimum.replacing(
                    "    key_sha256: \"\(Self.digest("0a"))\"",
                    with: "    since: \(text)\n    key_sha256: [\"\(Self.digest("0a"))\", \"\(Self.digest("0b"))\"]")
            ).clients.first.flatMap { client in
                #expect(
                    client.credentials == [10, 11].map { .bearerKey(sha256: [UInt8](repeating: $0, count: 32)) })
                return client.since?.timeIntervalSince1970
            }
        }
        #expect(try since("2026-05-01") == 1_777_593_600)
        #expect(try since("\"2026-05-01\"") == 1_777_593_600)
        #expect(try since("2026-05-01T12:00:00+02:00") == 1_777_629_600)
    }

    @Test("treats two entries that share one of two credentials as conflicting")
    func sharedCredential() {
        let second = """
              - name: other
                key_sha256: ["\(Self.digest("0c"))", "\(Self.digest("0a"))"]
                merchants: ["*"]
                operations: [session]
                domains: [shop.example]

            """
        #expect(
            problems(Self.minimum + second) == [
                "7 clients[1].name: another client has the same credential; give each its own"
            ])
    }

    @Test(
        "reads the account-number key's file, makes it for a store in a file, and warns if a database has none")
    func accountNumberKey() throws {
        let processors = "processors: [{ name: a, kind: simulator, url: \"unix:/s\", merchants: [\"*\"] }]\n"
        func key(_ store: String) throws -> AccountNumberKeyFile? {
            try load(Self.minimum + "store: { \(store) }\n" + processors).payments?.accountNumberKey
        }
        #expect(
            try key("url: \"sqlite:p.sqlite\"")
                == AccountNumberKeyFile(path: directory.path("p.sqlite.key"), isCreatedIfMissing: true))
        let database = "url: \"postgresql://db/x?sslmode=verify-full\""
        let without = try load(Self.minimum + "store: { \(database) }\n" + processors)
        #expect(without.payments?.accountNumberKey == nil)
        #expect(without.warnings.map(\.setting).contains(.noAccountNumberKey))
        let file = try directory.write(Self.digest("5A") + "\n", to: "key", mode: 0o600)
        let with = try load(
            Self.minimum + "store: { \(database), account_number_key_file: key }\n" + processors)
        #expect(with.payments?.accountNumberKey == AccountNumberKeyFile(path: file, isCreatedIfMissing: false))
        #expect(!with.warnings.map(\.setting).contains(.noAccountNumberKey))
        func fault(_ store: String) -> String? {
            problems(Self.minimum + "store: { \(store) }\n" + processors).first
        }
        #expect(fault("\(database), account_number_key_file: none")?.contains("cannot read the secret's file") == true)
        try directory.write(Self.digest("5G"), to: "key", mode: 0o600)
        #expect(fault("\(database), account_number_key_file: key")?.contains("does not have 64 hexadecimal") == true)
        // Without account_number_key_file, the gateway generates the key file p.sqlite.key. If that file exists, its
        // permissions are checked.
        try directory.write(Self.digest("5A"), to: "p.sqlite.key", mode: 0o644)
        #expect(fault("url: \"sqlite:p.sqlite\"")?.contains("so others can access it") == true)
    }

    @Test("refuses two clients with the same name or credential, and serves no client without an entry")
    func twins() {
        let twice = Self.minimum + Self.minimum.split(separator: "\n").dropFirst().joined(separator: "\n") + "\n"
        let found = problems(twice)
        #expect(found.count == 2 && found.allSatisfy { $0.hasPrefix("7 clients[1].name: another client") }, "\(found)")
        #expect(problems("log: {}\n").first?.contains("clients: is missing or empty") == true)
        #expect(problems("clients: []\n").first?.contains("clients: is missing or empty") == true)
    }
}
