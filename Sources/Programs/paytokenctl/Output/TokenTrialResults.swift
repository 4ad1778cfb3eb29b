import Foundation

/// The results of a trial, from the lines that `paytokend-hsm token-try` wrote in one or several processes.
struct TokenTrialResults {
    /// The HSM token and its library, as ``HSMWorker`` describes them: nothing identifies the device or its owner.
    struct Description: Codable, Equatable {
        let library, libraryManufacturer, cryptoki, manufacturer, model, hardwareVersion, firmwareVersion: String
        let mechanisms: [String]
    }

    struct Tests: Codable, Equatable {
        let tierECv1, tierRSAv1: String?
        /// The tier for Google Pay; absent too in results of earlier versions.
        let tierECv2: String?
        let tlsAlgorithms: [String]
        let padsPSS: Bool
        var shortcomings: [String]
    }

    struct Result: Codable, Equatable {
        let step: String
        var works: Bool
        var reason: String?
        var details: [String]?
        var seconds: Double?
        var keyRemoved: Bool?
        var sessions: Int?
    }

    private struct Line: Decodable {
        let began, step, reason: String?
        let works, keyRemoved: Bool?
        let details: [String]?
        let seconds: Double?
        let sessions: Int?
        let hsmToken: Description?
        let tests: Tests?
    }

    private(set) var hsmToken: Description?
    private(set) var tests: Tests?
    /// In the order in which the steps ended, each step once.
    private(set) var results: [Result] = []

    subscript(step: String) -> Result? { results.first { $0.step == step } }

    /// Adds the lines of a process.
    /// - Returns: The step in which the process ended; nil if all steps ended before it.
    mutating func add(_ output: [UInt8]) -> String? {
        var unfinished: String?
        for text in output.split(separator: UInt8(ascii: "\n")) {
            guard let line = try? JSONDecoder().decode(Line.self, from: Data(text)) else { continue }
            hsmToken = line.hsmToken ?? hsmToken
            tests = line.tests ?? tests
            unfinished = line.began ?? unfinished
            guard let step = line.step else { continue }
            unfinished = nil
            set(
                Result(
                    step: step, works: line.works ?? false, reason: line.reason, details: line.details,
                    seconds: line.seconds, keyRemoved: line.keyRemoved, sessions: line.sessions))
        }
        return unfinished
    }

    mutating func fail(_ step: String, _ reason: String) {
        set(Result(step: step, works: false, reason: reason))
    }

    private mutating func set(_ result: Result) {
        results.removeAll { $0.step == result.step }
        results.append(result)
    }

    // MARK: The row of Tokens.md

    private static let kinds = ["EC", "RSA", "identity"]
    private static let notTried = "not tried"
    private static let none = "–"

    /// The columns of the table in Tokens.md, with this trial's cells. scripts/tokens writes the same columns.
    var row: [(column: String, cell: String)] {
        let opens = served ? (self["audit key"]?.works == true ? "yes" : "second only") : "no"
        return [
            ("HSM token", title), ("opens", opens), ("EC_v1", tests?.tierECv1 ?? Self.none),
            ("RSA_v1", tests?.tierRSAv1 ?? Self.none), ("TLS", signatures), ("imports", kinds("imports")),
            ("generates", kinds("generates")), ("4 sessions", fourSessions), ("kill -9", Self.notTried),
            ("wrong PIN", Self.notTried), ("restart", Self.notTried), ("destroy", destroy),
            ("older ledger", Self.notTried), ("lost ledger", Self.notTried), ("verify", Self.notTried),
        ]
    }

    /// The row with its header, as in Tokens.md.
    var markdown: String {
        let lines = [row.map(\.column), row.map { _ in "---" }, row.map(\.cell)]
        return lines.map { "| " + $0.joined(separator: " | ") + " |\n" }.joined()
    }

    /// True if the HSM token decrypts or signs.
    var served: Bool {
        tests.map { [$0.tierECv1, $0.tierRSAv1, $0.tierECv2] != [nil, nil, nil] || !$0.tlsAlgorithms.isEmpty } ?? false
    }

    private var title: String {
        guard let hsmToken else { return Self.none }
        let names = ["\(hsmToken.manufacturer) \(hsmToken.model)", hsmToken.library]
        return names.joined(separator: ", ").replacingOccurrences(of: "|", with: "/")
    }

    private var signatures: String {
        let names = ["rsa_pss_rsae_sha256": tests?.padsPSS == true ? "PSS*" : "PSS", "rsa_pkcs1_sha256": "PKCS1"]
        let found = (tests?.tlsAlgorithms ?? []).map { names[$0] ?? $0 }
        return found.isEmpty ? Self.none : found.joined(separator: ", ")
    }

    func working(_ verb: String) -> [String] { Self.kinds.filter { self["\(verb) \($0)"]?.works == true } }

    private func kinds(_ verb: String) -> String {
        working(verb).isEmpty ? Self.none : working(verb).joined(separator: ", ")
    }

    private var fourSessions: String {
        let processing = (working("imports") + working("generates")).contains { $0 != "identity" }
        guard processing, let result = self["4 sessions"] else { return Self.none }
        return result.works ? "yes" : "no"
    }

    private var destroy: String {
        let removals = results.compactMap(\.keyRemoved)
        return removals.isEmpty ? Self.none : removals.allSatisfy(\.self) ? "yes" : "no"
    }

    // MARK: Advice

    /// Sentences about what the HSM token lacks, for the configuration's author.
    var advice: [String] {
        guard served else { return ["This HSM token serves nothing: do not configure it."] }
        var advice: [String] = []
        if self["audit key"]?.works == false {
            advice.append("It cannot seal the record: put an HSM token that can before it.")
        }
        if self["remembers the head"]?.works == false {
            advice.append("It does not remember the record's end: keep heads elsewhere, and verify with --head.")
        }
        if working("imports").isEmpty, !working("generates").isEmpty {
            advice.append("It takes no keys from outside: generate them in it.")
        }
        return advice
    }
}
