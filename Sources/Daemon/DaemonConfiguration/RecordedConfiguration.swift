package import AuditChain
import ConfigurationFile
import Encodings
import GooglePayToken
import HostSystem
import KeyTypes
import Ledger
import PaymentToken
import Telemetry
import WorkerSupervision

extension Configuration {
    /// The configuration's values as the record contains them (`configuration_values`), each under the names of its section
    /// and key. Settings that the file leaves out are recorded with their defaults.
    ///
    /// The values contain no secret, and nothing that could contain one. The record has only the names of a worker's
    /// environment variables, only the path and a keyed digest of a file with a secret, and only the fact that `init_args`
    /// is set.
    package var recordedValues: ConfigurationValues {
        var values = ConfigurationValues()
        access.write(into: &values)
        approvals.write(into: &values)
        ledger.write(into: &values)
        listener.write(into: &values)
        log.write(into: &values)
        if let renewal {
            values.set("renewal.issuer", ConfigurationValue(renewal.key.issuer))
            values.set("renewal.key_id", ConfigurationValue(renewal.keyId))
            values.set("renewal.nodes", list: renewal.nodes.sorted().map { ConfigurationValue($0) })
        }
        for (place, hsmToken) in hsmTokens.enumerated() {
            // The order is recorded too, since the first HSM token seals the record of a new ledger.
            values.set("tokens.\(place + 1)", ConfigurationValue(hsmToken.name))
            hsmToken.write(into: &values)
        }
        trust.write(into: &values)
        credentials.write(into: &values)
        values.set("verification.signing_time_window", ConfigurationValue(signingTimeWindow))
        // Without Google's root keys no message is decrypted, and the value has no effect.
        if trust.googlePay != nil {
            values.set("google_pay.message_lifetime", ConfigurationValue(googlePay.messageLifetime))
            values.set("google_pay.quiet", ConfigurationValue(googlePay.quiet))
        }
        return values
    }
}

extension AccessPolicy {
    /// Writes each rule under its number, counted from 1. The order matters, since the first matching rule decides.
    fileprivate func write(into values: inout ConfigurationValues) {
        for (place, rule) in rules.enumerated() { rule.write("access.\(place + 1)", into: &values) }
    }
}

extension AccessRule {
    fileprivate func write(_ path: String, into values: inout ConfigurationValues) {
        if let name { values.set("\(path).name", ConfigurationValue(name)) }
        if let user {
            values.set("\(path).user", ConfigurationValue(user.name))
            values.set("\(path).uid", ConfigurationValue(Int(user.id)))
        }
        if let group {
            values.set("\(path).group", ConfigurationValue(group.name))
            values.set("\(path).gid", ConfigurationValue(Int(group.id)))
        }
        values.set(
            "\(path).roles",
            list: Role.allCases.filter(roles.contains).map { ConfigurationValue($0.rawValue) })
        // They are Apple's alone.
        if servesApplePay {
            values.set(
                "\(path).merchants", list: merchants?.map { ConfigurationValue($0.text) } ?? [ConfigurationValue("*")])
        }
        if !servesApplePay || googlePay != nil {
            let wallets = (servesApplePay ? [Wallet.applePay] : []) + (googlePay == nil ? [] : [.googlePay])
            values.set("\(path).wallets", list: wallets.map { ConfigurationValue($0.rawValue) })
        }
        if let googlePay {
            values.set("\(path).google_pay.merchants", list: googlePay.merchants.map { ConfigurationValue($0.text) })
            values.set(
                "\(path).google_pay.auth_methods",
                list: googlePay.authMethods.map(\.rawValue).sorted().map { ConfigurationValue($0) })
        }
        values.set("\(path).require_expected", list: requireExpected.sorted().map { ConfigurationValue($0) })
        if let signingTimeWindow {
            values.set("\(path).signing_time_window", ConfigurationValue(signingTimeWindow))
        }
    }
}

extension ApprovalSettings {
    fileprivate func write(into values: inout ConfigurationValues) {
        values.set("approvals.people", ConfigurationValue(people))
        values.set("approvals.expire", ConfigurationValue(expire))
    }
}

extension LedgerSettings {
    /// The libpq parameters of the URL that determine the login and the connection's security.
    private static let recordedParameters = [
        "user", "service", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "channel_binding",
    ]

    fileprivate func write(into values: inout ConfigurationValues) {
        switch place {
        case .sqlite(let path):
            values.set("ledger.engine", ConfigurationValue("sqlite"))
            values.set("ledger.path", ConfigurationValue(path))
        case .postgresql(let database):
            values.set("ledger.engine", ConfigurationValue("postgresql"))
            values.set("ledger.server", ConfigurationValue(database.url.server))
            for name in Self.recordedParameters {
                guard let value = database.url.parameters[name] else { continue }
                values.set("ledger.\(name)", ConfigurationValue(value))
            }
            if let passwordFile = database.passwordFile {
                values.set("ledger.password_file", ConfigurationValue(passwordFile))
            }
            values.set("ledger.require_standby", ConfigurationValue(database.requiresStandby))
        }
        if let node { values.set("ledger.node", ConfigurationValue(node)) }
        values.set("ledger.retain_claims", ConfigurationValue(retainClaims))
        values.set("ledger.retain_records", archive.map { ConfigurationValue($0.retain) } ?? ConfigurationValue("off"))
        if let archive { values.set("ledger.archive_directory", ConfigurationValue(archive.directory)) }
        values.set("ledger.repeat_for", repeatFor == .zero ? ConfigurationValue("off") : ConfigurationValue(repeatFor))
        values.set("ledger.timeout", ConfigurationValue(timeout))
    }
}

extension ListenerSettings {
    fileprivate func write(into values: inout ConfigurationValues) {
        values.set("listener.socket", ConfigurationValue(socket))
        values.set("listener.mode", ConfigurationValue(permissions: mode))
        if let group {
            values.set("listener.group", ConfigurationValue(group.name))
            values.set("listener.gid", ConfigurationValue(Int(group.id)))
        }
        values.set("listener.admin_socket", ConfigurationValue(adminSocket))
        values.set("listener.admin_mode", ConfigurationValue(permissions: adminMode))
        values.set("listener.max_request_bytes", ConfigurationValue(maxRequestBytes))
        values.set("listener.max_connections", ConfigurationValue(maxConnections))
        values.set("listener.max_connections_per_uid", ConfigurationValue(maxConnectionsPerUID))
        values.set("listener.idle_timeout", ConfigurationValue(idleTimeout))
    }
}

extension LogSettings {
    fileprivate func write(into values: inout ConfigurationValues) {
        values.set("log.level", ConfigurationValue(level.rawValue))
        values.set("log.format", ConfigurationValue(format.rawValue))
    }
}

extension HSMTokenSettings {
    fileprivate func write(into values: inout ConfigurationValues) {
        let path = "tokens.\(name)"
        values.set("\(path).module", ConfigurationValue(module))
        values.set("\(path).uri", ConfigurationValue(uri))
        values.set("\(path).pin_file", ConfigurationValue(pinFile))
        values.set("\(path).sessions", ConfigurationValue(sessions))
        values.set("\(path).validation", ConfigurationValue(validation))
        values.set("\(path).call_timeout", ConfigurationValue(callTimeout))
        values.set("\(path).recycle_after", ConfigurationValue(recycleAfter))
        values.set("\(path).allow_extractable_secret", ConfigurationValue(allowExtractableSecret))
        values.set("\(path).environment", list: environment.keys.sorted().map { ConfigurationValue($0) })
        values.set("\(path).init_args", ConfigurationValue(initArgs.isEmpty ? "" : "set"))
        values.set("\(path).deny_system_calls", list: deniedSystemCalls.map { ConfigurationValue($0) })
        // The arguments of the program in `use_log` are not recorded, since they may contain secrets.
        values.set("\(path).use_log", ConfigurationValue(useLog?.path ?? ""))
        if let useLog { values.set("\(path).use_log_timeout", ConfigurationValue(useLog.timeout)) }
    }
}

extension TrustSettings {
    /// Writes the SHA-256 fingerprints of the roots in addition to the files' paths, since a file's content can change.
    fileprivate func write(into values: inout ConfigurationValues) {
        values.set("trust.root_files", list: rootFiles.map { ConfigurationValue($0) })
        let fingerprints = roots.map { root in
            (try? CertificateDescription(root)).flatMap { AuditDigest(bytes: $0.sha256) }
        }
        values.set(
            "trust.roots",
            list: (roots.isEmpty ? [AuditDigest(hex: AppleRootCAG3.fingerprint)] : fingerprints).map {
                $0.map { ConfigurationValue($0) } ?? ConfigurationValue("unknown")
            })
        values.set(
            "trust.distrusted",
            list: distrusted.compactMap { AuditDigest(bytes: $0) }.sorted { $0.hex < $1.hex }
                .map { ConfigurationValue($0) })
        values.set("trust.google_pay", ConfigurationValue(googlePay?.file ?? ""))
        guard let googlePay else { return }
        values.set("trust.google_pay_fetched", ConfigurationValue(googlePay.fetched?.file ?? ""))
        values.set("trust.google_pay_auto_accept", ConfigurationValue(googlePay.acceptsAll))
        func set(_ name: String, _ keys: [GoogleRootKey]) {
            values.set(name, list: keys.compactMap { AuditDigest(bytes: $0.sha256) }.map { ConfigurationValue($0) })
        }
        set("trust.google_pay_roots", googlePay.roots.keys)
        guard googlePay.fetched != nil else { return }
        set("trust.google_pay_not_accepted", googlePay.keys.notAccepted)
        set("trust.google_pay_vanished", googlePay.keys.vanished)
    }
}

extension ConfigurationValue {
    /// Creates the text of a duration as in the configuration file, in the largest unit of which it is a whole
    /// multiple.
    fileprivate init(_ duration: Duration) {
        self.init(DurationText.text(of: duration))
    }

    fileprivate init(_ window: SigningTimeWindow) {
        self.init(window.duration.map { DurationText.text(of: $0) } ?? "off")
    }

    fileprivate init(_ flag: Bool) {
        self.init(flag ? "true" : "false")
    }

    /// Creates the text of permission bits: four octal digits.
    fileprivate init(permissions: UInt32) {
        let digits = String(permissions, radix: 8)
        self.init(String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits)
    }
}
