import AuditChain

/// The configuration files of the year: the values of the first file, and the changes in each later one.
enum Configurations {
    struct Change {
        let name: String
        /// The previous value; nil if the setting is new.
        let before: String?
        let after: String
    }

    private static let callers = ["checkout-web", "checkout-app", "pos-gateway", "settlement-batch"]

    private static let pin = "tokens.primary.pin_digest"

    /// Returns an invented digest.
    private static func digest(_ secret: String) -> String { AuditDigest.of("keyed \(secret)".utf8).hex }

    private static var first: [String: String] {
        var values = [
            "approvals.people": "2", "approvals.expire": "1d", "ledger.engine": "sqlite",
            "ledger.path": "/var/lib/paytokend/ledger.sqlite", "ledger.retain_claims": "3d", "ledger.repeat_for": "10m",
            "listener.admin_socket": "/run/paytokend/admin.sock", "listener.socket": "/run/paytokend/paytokend.sock",
            "log.format": "json", "log.level": "info", "tokens.1": "primary",
            "tokens.primary.module": "/usr/lib/softhsm/libsofthsm2.so", "tokens.primary.pin_file": "/etc/paytokend/pin",
            "tokens.primary.sessions": "8", "tokens.primary.validation": "none: software, for tests",
            "tokens.primary.uri": "pkcs11:token=payments",
            "verification.signing_time_window": "5m", pin: digest("1234"), "credentials.key": digest("key"),
        ]
        for (place, name) in (callers + Person.allCases.map(\.rawValue)).enumerated() {
            let rule = "access.\(place + 1)"
            let isCaller = place < callers.count
            values["\(rule).name"] = name
            values["\(rule).user"] = name
            values["\(rule).uid"] =
                isCaller ? "\(PaymentCaller.all[place].uid)" : "\(Person.allCases[place - callers.count].caller.uid)"
            values["\(rule).merchants"] = "*"
            values["\(rule).require_expected"] = isCaller ? "amount, currency" : ""
            values["\(rule).roles"] =
                switch name {
                case "checkout-web": "decrypt, session"
                case Person.dora.rawValue: "audit"
                default: isCaller ? "decrypt" : "admin"
                }
        }
        return values
    }

    /// Returns the changes in a later configuration file.
    ///
    /// - Parameter number: the number of the file, 2 or 3. The first file has no changes.
    static func changes(in number: Int) -> [Change] {
        switch number {
        case 2:
            [
                Change(name: "log.level", before: "info", after: "notice"),
                Change(name: "verification.signing_time_window", before: "5m", after: "3m"),
            ]
        case 3:
            [
                Change(name: "access.4.merchants", before: "*", after: "merchant.com.example.*"),
                Change(name: "access.9.merchants", before: nil, after: "*"),
                Change(name: "access.9.name", before: nil, after: "night-watch"),
                Change(name: "access.9.require_expected", before: nil, after: ""),
                Change(name: "access.9.roles", before: nil, after: "monitor"),
                Change(name: "access.9.uid", before: nil, after: "1301"),
                Change(name: "access.9.user", before: nil, after: "night-watch"),
                Change(name: pin, before: digest("1234"), after: digest("8642")),
            ]
        default: []
        }
    }

    /// Returns the events that record all values in force with a configuration file. They fit into one record.
    static func events(of number: Int, node: String) -> [AuditEvent] {
        var values = first
        values["ledger.node"] = node
        for later in stride(from: 2, through: number, by: 1) {
            for change in changes(in: later) { values[change.name] = change.after }
        }
        var recorded = ConfigurationValues()
        for (name, value) in values {
            recorded.set(name, AuditDigest(hex: value).map { ConfigurationValue($0) } ?? ConfigurationValue(value))
        }
        return recorded.events()
    }
}
