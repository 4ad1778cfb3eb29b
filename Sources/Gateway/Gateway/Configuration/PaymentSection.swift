import AccessControl
import ConfigurationFile
import DatabaseSettings
import Payments
import Processors
import SecretMemory

// Unsafe: The secret's pointer is used only within the closure, which copies the text on purpose: a header is a
// String.

/// `store`, `deadline` and `processors`: the settings of payments.
struct PaymentSettings: Sendable, Equatable {
    enum Store: Sendable, Equatable {
        /// The absolute path of an SQLite file, which only one gateway can use.
        case sqlite(path: String)
        /// A database that several gateways may share.
        case postgresql(ServerDatabase)
    }

    var store: Store
    /// The file of the key with which the gateway recognises account numbers in a processor's later responses. Without
    /// a key (nil), the gateway recognises them only by their form.
    var accountNumberKey: AccountNumberKeyFile?
    /// The time limit of one payment, from its request to its response.
    var deadline: Duration
    /// The processors. A payment goes to the first processor with a pattern that matches the payment token's merchant.
    var processors: [ProcessorSettings]
}

struct ProcessorSettings: Sendable, Equatable {
    enum Kind: String, CaseIterable, Sendable {
        case simulator, radial

        /// True if a processor of this kind moves money.
        var isReal: Bool { self != .simulator }

        var capabilities: ProcessorCapabilities {
            switch self {
            case .simulator: SimulatorProcessor.capabilities
            case .radial: RadialProcessor.capabilities
            }
        }
    }

    let name: String
    let kind: Kind
    let endpoint: ProcessorEndpoint
    /// The headers from the file that `headers_file` names; secret.
    let headers: [Header]
    /// The merchants whose payments with Apple Pay go to the processor.
    let merchants: [MerchantPattern]
    /// The merchants whose payments with Google Pay go to the processor, and the kinds of card numbers that it takes; nil
    /// if it takes none.
    var googlePay: GooglePayAccess?
    /// Absolute paths of PEM files with the trusted roots of the processor's certificate; empty to trust the system's
    /// roots.
    var trust: [String] = []
    /// True if this simulator may be configured along with a processor that moves money.
    var mayCoexistWithReal = false

    struct Header: Sendable, Equatable {
        let name: String
        let value: String
    }
}

extension PaymentSettings {
    static let keys = ["store", "deadline", "processors"]
    private static let maximumProcessors = 100

    /// Returns nil if no processor is configured, so that no client can pay. Reports a store or a deadline without a
    /// processor as a problem.
    init?(_ root: ConfigurationSection) {
        let store = root.section("store", keys: ["url", "password_file", "account_number_key_file"])
        guard root.node("processors") != nil, let elements = root.list("processors"), !elements.isEmpty else {
            if root.node("processors") != nil || root.isEmpty("processors") {
                root.problem("processors", "is empty; name a processor, or leave it out if no client pays")
            }
            for name in ["store", "deadline"] where root.node(name) != nil || root.isEmpty(name) {
                root.problem(name, "is for payments, and there are no processors; add one, or leave it out")
            }
            return nil
        }
        if elements.count > Self.maximumProcessors {
            root.problem("processors", "has more than \(Self.maximumProcessors) entries")
            return nil
        }
        // A stopping gateway waits 28 s for payments in progress, so a payment must end before that.
        deadline = root.duration("deadline", in: .seconds(1)...Duration.seconds(27), default: .seconds(25))
        var processors: [ProcessorSettings] = []
        var sections: [ConfigurationSection] = []
        for element in elements {
            let section = ConfigurationSection(
                element.value, path: element.key, keys: ProcessorSettings.keys, reader: root.reader)
            guard let processor = ProcessorSettings(section) else { continue }
            if processors.contains(where: { $0.name == processor.name }) {
                section.problem("name", "another processor has this name; each needs its own")
            }
            switch processor.kind {
            case .simulator:
                section.warning(.simulator, "kind", "payments to this processor are simulated, and no money moves")
            case .radial:
                section.warning(
                    .untriedProcessor, "kind",
                    "was written from public documents and never tested against Radial; test it with a test store first"
                )
            }
            processors.append(processor)
            sections.append(section)
        }
        Self.checkSimulators(processors, sections)
        if deadline < RadialProcessor.leastTime * 2, processors.contains(where: { $0.kind == .radial }) {
            root.problem("deadline", "is shorter than 6s; with little time left, nothing is sent to Radial")
        }
        self.processors = processors
        guard let place = Self.place(store) else { return nil }
        self.store = place
        accountNumberKey = Self.accountNumberKey(store, of: place)
    }

    /// Returns the file of the key for account numbers. Returns nil if no key is used, or if the file has a problem
    /// that was reported. Checks the file if it already exists.
    private static func accountNumberKey(_ section: ConfigurationSection, of store: Store) -> AccountNumberKeyFile? {
        let (name, use) = ("account_number_key_file", "find account numbers with a copy of the store")
        var file: AccountNumberKeyFile?
        if section.node(name) != nil || section.isEmpty(name) {
            file = section.secretFile(name, use: use).map { AccountNumberKeyFile(path: $0, isCreatedIfMissing: false) }
        } else if case .sqlite(let path) = store {
            file = AccountNumberKeyFile(path: path + ".key", isCreatedIfMissing: true)
            if let file = file?.file, file.exists, section.checkedSecret(file.path, of: name, use: use) == nil {
                return nil
            }
        } else {
            section.warning(
                .noAccountNumberKey, name,
                "is missing, so an account number in a processor's answer is recognised only by its check digit; give all gateways the same file"
            )
        }
        guard let file, file.file.exists else { return file }
        do throws(RandomKeyFile.Fault) { _ = try file.file.read() } catch { section.problem(name, "\(error)") }
        return file
    }

    /// Refuses a simulator that could receive real payments. The merchant would ship goods for such a payment without
    /// being paid.
    private static func checkSimulators(_ processors: [ProcessorSettings], _ sections: [ConfigurationSection]) {
        guard processors.contains(where: \.kind.isReal) else { return }
        for (processor, section) in zip(processors, sections) where !processor.kind.isReal {
            if processor.mayCoexistWithReal {
                section.warning(
                    .simulatorWithReal, "beside_real",
                    "a simulator is configured with a processor that moves money; it answers payments as paid, although no money moves"
                )
            } else {
                section.problem(
                    "kind",
                    "is a simulator next to a processor that moves money; remove one, or set beside_real: true")
            }
        }
    }

    private static func place(_ section: ConfigurationSection) -> Store? {
        guard
            let url = section.node("url") == nil
                ? "sqlite:/var/lib/paytoken-gateway/payments.sqlite" : section.text("url")
        else { return nil }
        if ServerDatabase.isNamed(by: url) {
            guard let database = ServerDatabase(url, section, use: "change the outcome of payments") else { return nil }
            if InsecureStoreSetting.ofURL(database.url).contains(.databaseTLS) {
                section.warning(.databaseTLS, "url", InsecureStoreSetting.databaseTLS.description)
            }
            return .postgresql(database)
        }
        if section.node("password_file") != nil {
            section.problem("password_file", "is for a store in PostgreSQL, and store.url names a file; leave it out")
        }
        let path = url.hasPrefix("sqlite:///") ? url.dropFirst(9) : url.dropFirst(7)
        guard url.hasPrefix("sqlite:"), !path.isEmpty, !path.hasPrefix("//"), !path.hasSuffix("/") else {
            section.problem("url", "must be sqlite:PATH, or a connection URI that begins with postgresql://")
            return nil
        }
        let absolute = section.reader.absolute(String(path))
        section.examine("url", at: absolute) { () throws(PaymentStoreOpeningError) in
            try SQLitePaymentStore.examine(path: absolute)
        }
        return .sqlite(path: absolute)
    }
}

extension ProcessorSettings {
    static let keys = ["name", "kind", "url", "headers_file", "trust", "merchants", "google_pay", "beside_real"]

    fileprivate init?(_ section: ConfigurationSection) {
        for name in Self.keys where section.isEmpty(name) {
            section.problem(name, "has no value; give one, or leave it out")
        }
        let name = section.name("name")
        guard section.node("kind") != nil else {
            section.problem(
                "kind", "is missing; give one of \(Kind.allCases.map(\.rawValue).joined(separator: ", "))")
            return nil
        }
        let kind: Kind = section.choice("kind", default: .simulator)
        let endpoint = section.written("url").flatMap { ProcessorEndpoint($0) }
        guard let endpoint else {
            section.problem(
                "url", "must be https://HOST/PATH, or, on this host, http://127.0.0.1:PORT or unix:PATH")
            return nil
        }
        if kind == .simulator, case .https = endpoint.place {
            section.problem(
                "url", "must be unix:PATH or http:// with a loopback address: a simulator runs on this host")
        }
        if kind == .radial, !endpoint.isEncrypted || endpoint.basePath.isEmpty {
            section.problem(
                "url",
                "must be https://HOST/v1.0/stores/STORE/payments: Radial accepts payments only there, over TLS")
        }
        if kind.isReal, section.node("beside_real") != nil {
            section.problem("beside_real", "is for a simulator; leave it out here")
        }
        let merchants = section.texts("merchants")?.map { MerchantPattern($0.value) } ?? []
        let googlePay = section.node("google_pay") == nil ? nil : section.googlePayAccess()
        if merchants.isEmpty, googlePay == nil || section.node("merchants") != nil {
            section.problem("merchants", "is missing or empty, so no payments go here; [\"*\"] means all")
        }
        if let googlePay, !kind.capabilities.googlePay.isSuperset(of: googlePay.authMethods) {
            section.problem(
                "google_pay",
                kind.capabilities.googlePay.isEmpty
                    ? "is not possible with the kind \(kind.rawValue), of which no public document describes Google Pay"
                    : "has an auth_method that the kind \(kind.rawValue) does not take")
        }
        if googlePay?.authMethods.contains(.panOnly) == true {
            section.warning(
                .cardNumbers, "google_pay",
                "auth_methods has PAN_ONLY: cards' own numbers pass through the gateway, which cannot do a 3-D Secure step-up; permit it only if the processor does one"
            )
        }
        var headers: [Header] = []
        if section.node("headers_file") != nil {
            guard let read = Self.headers(section) else { return nil }
            headers = read
        }
        // Without the header, Radial would refuse each payment with an undocumented response, and each would stay
        // pending.
        if kind == .radial, headers.isEmpty {
            section.problem(
                "headers_file", "is missing or empty; Radial identifies a store by its key, in the line `apikey: KEY`")
        }
        var trust: [String] = []
        if endpoint.isEncrypted {
            trust = section.roots("trust")
        } else if section.node("trust") != nil {
            section.problem("trust", "is for an https:// URL; leave it out here")
        }
        if !trust.isEmpty {
            section.warning(
                .processorTrust, "trust",
                "the processor's certificate is verified with these roots instead of the system's"
            )
        }
        guard let name else { return nil }
        self.init(
            name: name, kind: kind, endpoint: endpoint, headers: headers, merchants: merchants, googlePay: googlePay,
            trust: trust, mayCoexistWithReal: section.boolean("beside_real", default: false))
    }

    /// Reads at most 32 headers, one `Name: value` per line (RFC 9110 §5). Refuses headers that the gateway itself sets
    /// in a request.
    private static func headers(_ section: ConfigurationSection) -> [Header]? {
        let most = 16 << 10
        guard
            let path = section.secretFile(
                "headers_file", use: "can act as this gateway at the processor", maximumBytes: most, hasLines: true),
            let secret = try? SecretBytes(contentsOfFile: path, maximumCount: most, hasLines: true)
        else { return nil }
        let text = unsafe secret.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
        var headers: [Header] = []
        let own = ["host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "user-agent"]
        for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let line = line.hasSuffix("\r") ? line.dropLast() : line
            if line.isEmpty { continue }
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count == 2 ? parts[1].drop { $0 == " " || $0 == "\t" } : ""
            guard parts.count == 2, !parts[0].isEmpty, !value.isEmpty, parts[0].utf8.allSatisfy(isTokenCharacter),
                value.utf8.allSatisfy({ (0x20...0x7E).contains($0) }), !own.contains(parts[0].lowercased()),
                headers.count < 32
            else {
                section.problem("headers_file", "line \(number + 1) is not `Name: value` with a header of your own")
                return nil
            }
            headers.append(Header(name: String(parts[0]), value: String(value)))
        }
        return headers
    }

    /// Returns true for a character of a header's name (RFC 9110 §5.6.2).
    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}

extension ConfigurationWarning.Setting {
    static let simulator = Self("simulator")
    static let databaseTLS = Self("database_tls")
    static let simulatorWithReal = Self("simulator_beside_real")
    static let processorTrust = Self("processor_trust")
    static let cardNumbers = Self("google_pay_pan_only")
    static let untriedProcessor = Self("untried_processor")
    static let noExpectations = Self("no_expectations")
    static let noAccountNumberKey = Self("no_account_number_key")
}
