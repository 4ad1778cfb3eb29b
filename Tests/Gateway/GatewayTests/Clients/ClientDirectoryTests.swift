import ConfigurationFile
import Foundation
import Testing

@testable import Gateway

@Suite("The client that sent a request")
struct ClientDirectoryTests {
    private static func entry(_ name: String, _ credentials: ClientCredential...) -> GatewayClient {
        GatewayClient(
            name: name, credentials: credentials, operations: [.session],
            merchants: [MerchantPattern("merchant.com.example.*")], domains: ["shop.example", "*.shops.example"])
    }

    private static func digest(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 32) }

    private let directory: ClientDirectory = ClientDirectory(
        [
            Self.entry("first", .bearerKey(sha256: BearerKey.sha256(of: "ptgw_first"))),
            Self.entry("pinned", .certificate(sha256: Self.digest(7))),
            Self.entry("second", .bearerKey(sha256: BearerKey.sha256(of: "ptgw_second"))),
            Self.entry("issued", .certificateName(.dns("backend.shop.example"))),
        ], generation: 3)

    private func client(key: String) -> String? {
        directory.client(for: Authorization(["Bearer \(key)"]), certificate: nil, at: Date())?.name
    }

    private func client(_ certificate: PresentedCertificate, at time: Date = Date()) -> String? {
        directory.client(for: .absent, certificate: certificate, at: time)?.name
    }

    @Test("assigns each bearer key to its client, and any other text to none")
    func keys() {
        #expect(client(key: "ptgw_first") == "first")
        #expect(client(key: "ptgw_second") == "second")
        for wrong in ["ptgw_firs", "ptgw_firstx", "PTGW_FIRST", "x", String(repeating: "a", count: 200)] {
            #expect(client(key: wrong) == nil, "\(wrong)")
        }
    }

    @Test("accepts each credential of an entry, key or certificate")
    func several() {
        let directory = ClientDirectory(
            [
                Self.entry("first", .bearerKey(sha256: BearerKey.sha256(of: "ptgw_x"))),
                Self.entry(
                    "changing", .bearerKey(sha256: BearerKey.sha256(of: "ptgw_old")),
                    .bearerKey(sha256: BearerKey.sha256(of: "ptgw_new")), .certificate(sha256: Self.digest(8)),
                    .certificate(sha256: Self.digest(9)), .certificateName(.dns("backend.shop.example"))),
                Self.entry("last", .bearerKey(sha256: BearerKey.sha256(of: "ptgw_y"))),
            ], generation: 3)
        for key in ["ptgw_old", "ptgw_new"] {
            #expect(
                directory.client(for: Authorization(["Bearer \(key)"]), certificate: nil, at: Date())?.name
                    == "changing")
        }
        for certificate in [
            PresentedCertificate.made(sha256: Self.digest(8)), .made(sha256: Self.digest(9)),
            .made(names: [.dns("backend.shop.example")], verifiedGeneration: 3),
        ] {
            #expect(directory.client(for: .absent, certificate: certificate, at: Date())?.name == "changing")
        }
        #expect(directory.client(for: .absent, certificate: .made(sha256: Self.digest(7)), at: Date()) == nil)
        #expect(directory.usesCertificates)
    }

    @Test("assigns a hash that is not as long as SHA-256 to no client")
    func lengths() {
        let odd = ClientDirectory([Self.entry("odd", .bearerKey(sha256: []))])
        #expect(odd.client(for: .bearer(sha256: Self.digest(0)), certificate: nil, at: Date()) == nil)
        #expect(odd.client(for: .bearer(sha256: []), certificate: nil, at: Date())?.name == "odd")
    }

    @Test("recognises a certificate by its configured hash, from any issuer")
    func pinned() {
        #expect(client(.made(sha256: Self.digest(7))) == "pinned")
        #expect(client(.made(sha256: Self.digest(8))) == nil)
    }

    @Test("accepts a name in a certificate only under the authorities in force")
    func issued() {
        let names: Set = [CertificateName.dns("backend.shop.example")]
        #expect(client(.made(names: names, verifiedGeneration: 3)) == "issued")
        #expect(client(.made(names: names, verifiedGeneration: 2)) == nil)
        #expect(client(.made(names: names, verifiedGeneration: nil)) == nil)
        #expect(client(.made(names: [.dns("other.shop.example")], verifiedGeneration: 3)) == nil)
    }

    @Test("distinguishes kinds of names: a URI never matches a host name, nor a DNS name a URI")
    func kinds() {
        let texts = ["backend.shop.example", "Backend.Shop.Example", "spiffe://shop.example/Backend", "urn:uuid:1"]
        #expect(
            texts.map(CertificateName.init) == [
                .dns("backend.shop.example"), .dns("backend.shop.example"), .uri("spiffe://shop.example/Backend"),
                .uri("urn:uuid:1"),
            ])
        for text in texts {
            let directory = ClientDirectory([Self.entry("c", .certificateName(CertificateName(text)))])
            func isKnown(_ name: CertificateName) -> Bool {
                directory.client(
                    for: .absent, certificate: .made(names: [name], verifiedGeneration: 0), at: Date()) != nil
            }
            let isURI = text.contains(":")
            #expect(isKnown(.uri(text)) == isURI && isKnown(.dns(text.lowercased())) == !isURI, "\(text)")
        }
    }

    @Test("accepts a certificate only within its validity")
    func validity() {
        let certificate = PresentedCertificate.made(sha256: Self.digest(7))
        #expect(client(certificate, at: certificate.notBefore.addingTimeInterval(-1)) == nil)
        #expect(client(certificate, at: certificate.notAfter.addingTimeInterval(1)) == nil)
        #expect(client(certificate, at: certificate.notAfter) == "pinned")
    }

    @Test("decides by the bearer key alone if there is one")
    func keyFirst() {
        let pinned = PresentedCertificate.made(sha256: Self.digest(7))
        for value in ["Bearer wrong", "Basic Zm9vOmJhcg==", "Bearer", ""] {
            #expect(
                directory.client(for: Authorization([value]), certificate: pinned, at: Date()) == nil, "\(value)")
        }
        #expect(
            directory.client(for: Authorization(["Bearer ptgw_first"]), certificate: pinned, at: Date())?.name
                == "first")
    }

    @Test(
        "reports anything but one bearer key as unusable",
        arguments: [
            ["Bearer"], ["Bearer "], ["bearer a b"], ["Basic a"], ["Bearer a", "Bearer a"], [""],
            ["Bearer \u{7F}"], ["Bearer ä"], ["Bearer " + String(repeating: "a", count: 256)],
        ])
    func unusable(values: [String]) {
        #expect(Authorization(values) == .unusable)
    }

    @Test("ignores the scheme's case, and treats an absent header as no claim")
    func schemes() {
        #expect(Authorization(["bEaReR ptgw_first"]) == .bearer(sha256: BearerKey.sha256(of: "ptgw_first")))
        #expect(Authorization([]) == .absent)
    }

    @Test("takes merchants and domains from the entry")
    func bounds() {
        let client = Self.entry("c", .certificateName(.dns("x")))
        #expect(client.allows(merchant: "merchant.com.example.shop"))
        #expect(!client.allows(merchant: "merchant.com.examples"))
        #expect(client.allows(domain: "shop.example") && client.allows(domain: "SHOP.example"))
        #expect(client.allows(domain: "a.shops.example") && client.allows(domain: "a.b.shops.example"))
        for domain in [
            "www.shop.example", "shops.example", ".shops.example", "xshops.example", "shop.example.", "",
            "shop-example",
        ] {
            #expect(!client.allows(domain: domain), "\(domain)")
        }
    }

    @Test("makes a new key of 256 random bits in a recognisable form, and accepts it by the hash printed with it")
    func newKey() throws {
        let keys = (0..<20).map { _ in NewBearerKey() }
        #expect(Set(keys.map(\.key)).count == 20)
        for key in keys {
            #expect(key.key.hasPrefix("ptgw_") && key.key.utf8.count == 5 + 43)
            #expect(
                key.key.utf8.dropFirst(5).allSatisfy {
                    Character(UnicodeScalar($0)).isLetter || Character(UnicodeScalar($0)).isNumber || $0 == 45
                        || $0 == 95
                })
            #expect(key.keySHA256.utf8.count == 64)
            #expect(key.json == "{\"key\":\"\(key.key)\",\"key_sha256\":\"\(key.keySHA256)\"}")
        }
    }
}

extension PresentedCertificate {
    static func made(
        sha256: [UInt8] = [UInt8](repeating: 0, count: 32), names: Set<CertificateName> = [],
        verifiedGeneration: Int? = nil
    ) -> PresentedCertificate {
        PresentedCertificate(
            sha256: sha256, names: names, notBefore: Date(timeIntervalSince1970: 1_600_000_000),
            notAfter: Date(timeIntervalSince1970: 4_000_000_000),
            verifiedGeneration.map { .success($0) } ?? .failure(.noPath))
    }
}
