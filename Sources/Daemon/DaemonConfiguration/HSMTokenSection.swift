import CLinux
import ConfigurationFile
import Encodings
import Foundation
import Glibc
import SecretMemory
import WorkerSupervision

// Unsafe: stat(2) writes only the structure that it receives. paytokend_deniable_system_call returns constant strings,
// which are copied.

extension HSMTokenSettings {
    static let keys = [
        "name", "module", "uri", "pin_file", "sessions", "call_timeout", "recycle_after", "allow_extractable_secret",
        "environment", "init_args", "deny_system_calls", "use_log", "use_log_timeout", "validation",
    ]

    /// Parses `tokens` of the configuration's root. An HSM token with a problem is reported and left out.
    static func all(_ root: ConfigurationSection) -> [HSMTokenSettings] {
        guard root.node("tokens") != nil else {
            root.reader.problem("tokens", line: nil, "is missing; describe the HSM token with the merchant keys")
            return []
        }
        guard let elements = root.list("tokens") else { return [] }
        if elements.isEmpty { root.problem("tokens", "is empty; describe the HSM token with the merchant keys") }
        if elements.count > maximumHSMTokens {
            let extra = elements[maximumHSMTokens]
            root.reader.problem(
                extra.key, line: extra.line,
                "is one too many: one daemon serves at most \(maximumHSMTokens) HSM tokens")
        }
        let hsmTokens = elements.prefix(maximumHSMTokens).map { element in
            let section = ConfigurationSection(
                element.value, path: element.key, keys: HSMTokenSettings.keys, reader: root.reader)
            return (section: section, settings: HSMTokenSettings(section))
        }
        checkNames(hsmTokens.map { ($0.section, $0.settings?.name) })
        return hsmTokens.compactMap(\.settings)
    }

    private static let maximumHSMTokens = 16

    /// Reports names that occur twice: records, metrics and the option `--token` distinguish HSM tokens by name.
    private static func checkNames(_ hsmTokens: [(section: ConfigurationSection, name: String?)]) {
        var places: [String: String] = [:]
        for (section, name) in hsmTokens {
            guard let name else { continue }
            if let place = places[name] {
                section.problem("name", "is \(name), the same as \(place); give each HSM token its own name")
            }
            places[name] = places[name] ?? section.key("name")
        }
    }

    /// Parses one HSM token. Returns nil after reporting that a required value is missing or invalid.
    init?(_ section: ConfigurationSection) {
        let name = section.name("name")
        let module = Self.module(section)
        let uri = Self.uri(section)
        let pinFile = Self.pinFile(section, source: uri?.pinFile)
        let sessions = section.integer("sessions", in: 1...256, default: 2)
        let callTimeout = section.duration(
            "call_timeout", in: .milliseconds(100)...(.seconds(600)), default: .seconds(10))
        let recycleAfter = section.integer("recycle_after", in: 1...1_000_000_000_000, default: 1_000_000)
        let allowExtractableSecret = section.boolean("allow_extractable_secret", default: false)
        let environment = Self.environment(section)
        let initArgs = section.text("init_args") ?? ""
        let deniedSystemCalls = Self.deniedSystemCalls(section)
        let validation = section.text("validation") ?? ""
        guard let name, let module, let uri, let pinFile else { return nil }
        self.init(
            name: name, module: module, uri: uri.withoutQuery, pinFile: pinFile, sessions: sessions,
            callTimeout: callTimeout, recycleAfter: recycleAfter, allowExtractableSecret: allowExtractableSecret,
            environment: environment, initArgs: initArgs, deniedSystemCalls: deniedSystemCalls,
            useLog: Self.useLog(section, environment), validation: validation)
    }

    /// Parses `use_log`: a program and its arguments. The daemon runs the program without a shell.
    private static func useLog(_ section: ConfigurationSection, _ environment: [String: String]) -> UseLogProgram? {
        let timeout = section.duration(
            "use_log_timeout", in: .seconds(1)...(.seconds(3600)), default: .seconds(60))
        guard section.node("use_log") != nil else {
            if section.node("use_log_timeout") != nil {
                section.problem(
                    "use_log_timeout", "applies only with use_log, which is not set; set use_log or remove this key")
            }
            return nil
        }
        guard let words = section.texts("use_log")?.map(\.value), let path = words.first, path.hasPrefix("/") else {
            section.problem(
                "use_log",
                "must be a list: a program's absolute path and its arguments, as in [/usr/local/libexec/token-uses]")
            return nil
        }
        if let objection = UseLogProgram.objection(to: path) {
            section.problem("use_log", "the program \(ConfigurationText.shown(path)) \(objection)")
            return nil
        }
        return UseLogProgram(
            path: path, arguments: Array(words.dropFirst()), timeout: timeout, environment: environment)
    }

    private static func module(_ section: ConfigurationSection) -> String? {
        guard section.node("module") != nil else {
            section.problem("module", "is missing; name the vendor's PKCS#11 library")
            return nil
        }
        let path = section.path("module", default: "")
        guard !path.isEmpty else { return nil }
        guard FileManager.default.isReadableFile(atPath: path) else {
            section.problem("module", "the library \(ConfigurationText.shown(path)) cannot be read; check the path")
            return nil
        }
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            section.problem("module", "\(ConfigurationText.shown(path)) is not a file; name the library itself")
            return nil
        }
        return path
    }

    private static func uri(_ section: ConfigurationSection) -> TokenURI? {
        guard let text = section.text("uri") else {
            if section.node("uri") == nil {
                section.problem("uri", "is missing; name the HSM token, as in \"pkcs11:token=paytokend\"")
            }
            return nil
        }
        do throws(TokenURIError) {
            return try TokenURI(text)
        } catch {
            section.problem("uri", error.description)
            return nil
        }
    }

    private static func pinFile(_ section: ConfigurationSection, source: String?) -> String? {
        guard section.node("pin_file") != nil else {
            guard let source else {
                section.problem(
                    "pin_file", "is missing; name the file with the user PIN, here or as pin-source in the uri")
                return nil
            }
            return section.checkedSecret(source, of: "uri", use: tokenUse)
        }
        if source != nil {
            section.problem("pin_file", "is set together with a pin-source in the uri; keep one of them")
        }
        return section.secretFile("pin_file", use: tokenUse)
    }

    /// The words for problem reports about a PIN file that other accounts can read: what those accounts could do with
    /// the PIN.
    private static let tokenUse = "use the HSM token without the daemon"

    private static func deniedSystemCalls(_ section: ConfigurationSection) -> [String] {
        var names: [String] = []
        for element in section.texts("deny_system_calls") ?? [] where !names.contains(element.value) {
            guard DeniableSystemCalls.names.contains(element.value) else {
                let known = DeniableSystemCalls.names
                let suggestion = NearestName.suggestion(for: element.value, among: known).map { "did you mean \($0)?" }
                section.reader.problem(
                    element.key, line: element.line,
                    "\(ConfigurationText.shown(element.value)) cannot be denied; "
                        + (suggestion ?? "use one of: \(known.joined(separator: ", "))"))
                continue
            }
            names.append(element.value)
        }
        return names
    }

    private static func environment(_ section: ConfigurationSection) -> [String: String] {
        guard let node = section.node("environment") else { return [:] }
        guard case .mapping(let mapping) = node else {
            section.problem("environment", "must be names with values, as in { SOFTHSM2_CONF: /etc/softhsm2.conf }")
            return [:]
        }
        var environment: [String: String] = [:]
        for (key, value) in mapping {
            let name = key.scalar?.string ?? ""
            let isName =
                (1...128).contains(name.utf8.count)
                && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "=") }
            guard isName, let text = value.scalar?.string, ConfigurationText.isPlain(text) else {
                section.reader.problem(
                    section.key("environment"), line: key.mark?.line, "must be names with values, each on one line")
                continue
            }
            environment[name] = text
        }
        return environment
    }
}

/// The system calls that the configuration can deny to an HSM token's worker; see `deny_system_calls` in the sample
/// configuration.
enum DeniableSystemCalls {
    static let names: [String] = {
        var names: [String] = []
        while let name = unsafe paytokend_deniable_system_call(names.count) {
            names.append(unsafe String(cString: name))
        }
        return names
    }()
}
