import AuditChain
import Encodings
import PaymentToken

/// `ledger`: what was released already.
struct LedgerSettings: Sendable, Equatable {
    /// Absolute path of the SQLite file.
    var path: String
    /// nil means the host name at first start, kept by the ledger from then on.
    var node: String?
    var retainClaims: Duration
    /// Zero: no repeats.
    var repeatFor: Duration
    /// The longest that anything waits for the ledger.
    var timeout: Duration
}

extension LedgerSettings {
    static let keys = ["url", "node", "retain_claims", "repeat_for", "timeout"]

    /// nil after a reported problem with the URL.
    init?(_ section: ConfigurationSection) {
        let node = section.node("node") == nil ? nil : section.text("node")
        if let node, AuditNode(node) == nil {
            section.problem("node", "must be 1 to 64 letters, digits, dots, hyphens and underscores")
        }
        let retainClaims = section.duration(
            "retain_claims", in: .seconds(60)...DurationText.days(3650), default: DurationText.days(180))
        let repeatFor =
            section.durationOrOff("repeat_for", in: .zero...DurationText.days(30), default: .seconds(86_400)) ?? .zero
        let timeout = section.duration(
            "timeout", in: .milliseconds(100)...Duration.seconds(60), default: .seconds(10))
        let url = section.node("url") == nil ? "sqlite:/var/lib/paytokend/ledger.sqlite" : section.text("url")
        guard let url, let path = Self.path(url, section) else { return nil }
        self.init(
            path: section.reader.absolute(path), node: node, retainClaims: retainClaims, repeatFor: repeatFor,
            timeout: timeout)
        if repeatFor > retainClaims {
            section.problem("repeat_for", "is longer than retain_claims; a repeat needs its claim")
        }
    }

    private static func path(_ url: String, _ section: ConfigurationSection) -> String? {
        if url.hasPrefix("postgres:") || url.hasPrefix("postgresql:") {
            section.problem("url", "PostgreSQL is not yet supported; use sqlite:/path/to/ledger.sqlite")
            return nil
        }
        // sqlite:///path is sqlite:/path with an empty host.
        let path = url.hasPrefix("sqlite:///") ? url.dropFirst(9) : url.dropFirst(7)
        guard url.hasPrefix("sqlite:"), !path.isEmpty, !path.hasPrefix("//"), !path.hasSuffix("/") else {
            section.problem("url", "must be sqlite: and a path, as in sqlite:/var/lib/paytokend/ledger.sqlite")
            return nil
        }
        return String(path)
    }

    /// A claim that is forgotten while its token is still young enough could be released again.
    func checkRetention(against windows: [SigningTimeWindow], _ root: ConfigurationSection) {
        let longest = windows.compactMap { window -> Duration? in
            if case .within(let duration) = window { duration } else { nil }
        }.max()
        // A signing time may lie in the future by the window as well.
        guard let longest, retainClaims < longest * 2 else { return }
        root.section("ledger", keys: Self.keys).problem(
            "retain_claims",
            "must be at least twice the longest signing_time_window, else a transaction could be released again")
    }
}
