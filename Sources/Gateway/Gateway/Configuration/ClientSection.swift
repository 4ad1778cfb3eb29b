import AccessControl
import ConfigurationFile
import DaemonAPI
import Encodings
import Foundation

extension GatewayClient {
    fileprivate static let credentialKeys = ["key_sha256", "certificate_sha256", "certificate_san"]
    fileprivate static let clientKeys =
        ["name"] + credentialKeys + ["merchants", "google_pay", "operations", "domains", "require_expected", "since"]
    private static let maximumClients = 1_000
    fileprivate static let maximumCredentials = 10

    /// Reads the clients that the file lists under `clients`. Reports an entry with a problem, and leaves it out.
    static func all(_ root: ConfigurationSection, hasCertificateAuthorities: Bool) -> [GatewayClient] {
        guard root.node("clients") != nil, let elements = root.list("clients"), !elements.isEmpty else {
            if root.node("clients") == nil || root.list("clients")?.isEmpty == true {
                root.problem(
                    "clients", "is missing or empty, so no request would be served; add an entry for each backend")
            }
            return []
        }
        if elements.count > maximumClients {
            root.problem("clients", "has more than \(maximumClients) entries")
            return []
        }
        var clients: [GatewayClient] = []
        var credentials: Set<ClientCredential> = []
        for element in elements {
            let section = ConfigurationSection(
                element.value, path: element.key, keys: clientKeys, reader: root.reader)
            guard let client = GatewayClient(section, hasCertificateAuthorities: hasCertificateAuthorities) else {
                continue
            }
            if clients.contains(where: { $0.name == client.name }) {
                section.problem("name", "another client has this name; each needs its own")
            }
            if !credentials.isDisjoint(with: client.credentials) {
                section.problem("name", "another client has the same credential; give each its own")
            }
            credentials.formUnion(client.credentials)
            clients.append(client)
        }
        return clients
    }

    private init?(_ section: ConfigurationSection, hasCertificateAuthorities: Bool) {
        for name in Self.clientKeys where section.isEmpty(name) {
            section.problem(name, "has no value; give one, or leave it out")
        }
        let name = section.name("name")
        let credentials = section.credentials(hasCertificateAuthorities: hasCertificateAuthorities)
        let operations = section.operations()
        let merchants = section.texts("merchants")?.map { MerchantPattern($0.value) } ?? []
        // paytokend receives the patterns with each payment token. It refuses a request with more or longer patterns
        // than these limits permit.
        let (most, longest) = (DecryptRequest.maximumMerchants, DecryptRequest.maximumPatternBytes)
        if merchants.count > most || merchants.contains(where: { !(1...longest).contains($0.text.utf8.count) }) {
            section.problem(
                "merchants",
                "has more than \(most) patterns, or one that is not 1 to \(longest) bytes long; combine several into one with *"
            )
        }
        let hasGooglePay = section.node("google_pay") != nil
        let googlePay = hasGooglePay ? section.googlePayAccess(hasAuthMethods: false) : nil
        // Only payments and their status are possible with Google's merchants alone.
        let mayLackMerchants = hasGooglePay && operations.isSubset(of: [.pay, .status])
        if section.node("merchants") == nil ? !mayLackMerchants : merchants.isEmpty {
            section.problem(
                "merchants",
                "is missing or empty, so no merchant is allowed; list merchant identifiers, or [\"*\"] for all; only a client that has google_pay, and no operation but pay and status, may leave it out"
            )
        }
        if hasGooglePay, !operations.contains(.pay) {
            section.problem("google_pay", "has no effect without the operation pay; add it, or leave google_pay out")
        }
        let domains = section.domains()
        if operations.contains(.session), domains.isEmpty, section.node("domains") == nil {
            section.problem(
                "domains", "is missing; the operation session needs the domains that show the payment button")
        }
        if operations.contains(.decrypt), credentials?.allSatisfy(\.usesCertificate) == false {
            section.problem(
                "operations",
                "has decrypt, which returns card data, but the client has a bearer key; give it certificate_sha256 or certificate_san, or leave decrypt out"
            )
        }
        let expectations = section.requiredExpectations(paying: operations.contains(.pay))
        let since = section.since()
        guard let name, let credentials else { return nil }
        self.init(
            name: name, credentials: credentials, operations: operations, merchants: merchants, domains: domains,
            requiredExpectations: expectations, googlePay: googlePay, since: since)
    }
}

extension ConfigurationSection {
    /// Reads the client's credentials. Returns at least one, or nil if it has reported a problem.
    fileprivate func credentials(hasCertificateAuthorities: Bool) -> [ClientCredential]? {
        let given = GatewayClient.credentialKeys.filter { node($0) != nil }
        guard !given.isEmpty else {
            problem(
                "key_sha256",
                "is missing; give key_sha256 (paytoken-gateway new-key makes a key), certificate_sha256 or certificate_san"
            )
            return nil
        }
        var credentials: [ClientCredential] = []
        var isComplete = true
        for key in given {
            let values = oneOrMore(key)
            let read = values.compactMap { self.credential($0, key, hasCertificateAuthorities) }
            isComplete = isComplete && !values.isEmpty && read.count == values.count
            credentials += read
        }
        if Set(credentials).count < credentials.count {
            problem("name", "the client has the same credential twice; remove one")
        }
        return isComplete ? credentials : nil
    }

    /// Returns the texts of a setting that is one text or a list of texts. Returns an empty array if it has reported a
    /// problem.
    private func oneOrMore(_ key: String) -> [Located<String>] {
        guard node(key)?.scalar == nil else {
            return written(key).map { [Located(value: $0, key: self.key(key), line: node(key)?.mark?.line)] } ?? []
        }
        guard let elements = list(key) else { return [] }
        guard (1...GatewayClient.maximumCredentials).contains(elements.count) else {
            problem(key, "must have 1 to \(GatewayClient.maximumCredentials) elements")
            return []
        }
        // `texts` leaves out an element that is not a text, after reporting it. The result is then empty, so the whole
        // client is left out.
        let texts = texts(key) ?? []
        return texts.count == elements.count ? texts : []
    }

    private func credential(
        _ element: Located<String>, _ key: String, _ hasCertificateAuthorities: Bool
    ) -> ClientCredential? {
        let text = element.value
        func fault(_ message: String) -> ClientCredential? {
            reader.problem(element.key, line: element.line, message)
            return nil
        }
        if key == "certificate_san" {
            guard !text.contains("*") else {
                return fault("is a pattern, which no certificate matches; give the whole DNS name or URI, without *")
            }
            guard hasCertificateAuthorities else {
                return fault("needs listener.tls.client_ca, which lists the trusted issuers of client certificates")
            }
            let name = CertificateName(text)
            let (kind, longest) = if case .uri = name { ("URI", 2048) } else { ("DNS name", 253) }
            guard (1...longest).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                return fault("must be a DNS name or a URI; a \(kind) has at most \(longest) ASCII characters")
            }
            return .certificateName(name)
        }
        guard let digest = Hexadecimal.decode(text), digest.count == 32 else {
            return fault("must be a SHA-256: 64 hexadecimal digits in quotes")
        }
        return key == "key_sha256" ? .bearerKey(sha256: digest) : .certificate(sha256: digest)
    }

    /// Reads a time (RFC 3339), or a date, which means 00:00 UTC on that day. A time in the future is a problem,
    /// because the client could not read its own payments.
    fileprivate func since() -> Date? {
        guard let text = written("since") else { return nil }
        guard let date = RFC3339.date(text.utf8.count == 10 ? text + "T00:00:00Z" : text) else {
            problem("since", "must be a date or a time as in 2026-05-01 or 2026-05-01T12:00:00Z")
            return nil
        }
        guard date <= Date() else {
            problem("since", "is in the future; give the time from which the name belongs to this client")
            return nil
        }
        return date
    }

    fileprivate func operations() -> Set<ClientOperation> {
        var operations: Set<ClientOperation> = []
        for element in choices("operations", among: ClientOperation.allCases.map(\.rawValue)) {
            guard let operation = ClientOperation(rawValue: element.value) else { continue }
            operations.insert(operation)
        }
        if node("operations") == nil || list("operations")?.isEmpty == true {
            problem(
                "operations",
                "is missing or empty, so nothing is allowed; give one or more of \(ClientOperation.allCases.map(\.rawValue).joined(separator: ", "))"
            )
        }
        return operations
    }

    fileprivate func requiredExpectations(paying: Bool) -> Set<RequiredExpectation> {
        guard node("require_expected") != nil else { return RequiredExpectation.standard }
        let required = Set(
            choices("require_expected", among: RequiredExpectation.allCases.map(\.rawValue))
                .compactMap { RequiredExpectation(rawValue: $0.value) })
        if !required.isSuperset(of: RequiredExpectation.standard), paying {
            warning(
                .noExpectations, "require_expected",
                "payments of this client need not state the expected amount, so a wrong amount is not detected here")
        }
        return required
    }

    /// Returns the host names in lower case. An internationalised name must be in its A-label form (RFC 5890 §2.3.2.1).
    fileprivate func domains() -> [String] {
        (texts("domains") ?? []).compactMap { element in
            let name = element.value.lowercased()
            let host = name.hasPrefix("*.") ? name.dropFirst(2) : name[...]
            guard Self.isHostName(host) else {
                reader.problem(
                    element.key, line: element.line,
                    "must be a domain name without scheme, port or path, as in shop.example, or *.shop.example for all below"
                )
                return nil
            }
            return name
        }
    }

    /// Returns true if the name has two or more labels of letters, digits and inner hyphens (RFC 1123 §2.1), and at
    /// most 253 bytes in total. The last label must not consist of digits alone.
    private static func isHostName(_ name: Substring) -> Bool {
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        return name.utf8.count <= 253 && labels.count >= 2 && labels.last?.allSatisfy(\.isNumber) == false
            && labels.allSatisfy { label in
                (1...63).contains(label.utf8.count) && !label.hasPrefix("-") && !label.hasSuffix("-")
                    && label.utf8.allSatisfy {
                        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0)
                            || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || $0 == UInt8(ascii: "-")
                    }
            }
    }
}
