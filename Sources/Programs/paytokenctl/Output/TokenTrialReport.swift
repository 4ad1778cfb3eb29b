import Foundation
import ProductVersion

/// The anonymous report about a trial, for the project: library and device versions, mechanisms, results. It has no
/// label, serial number, path, account or host name.
struct TokenTrialReport: Encodable {
    let format = "paytokend token trial 1"
    let paytokend = ProductVersion.current
    let hsmToken: TokenTrialResults.Description?
    let tests: TokenTrialResults.Tests?
    let row: [String: String]
    let results: [TokenTrialResults.Result]

    private enum CodingKeys: CodingKey { case format, paytokend, hsmToken, tests, row, results }

    /// - Parameter names: Texts that must not occur in the messages of the library and the worker.
    init(_ results: TokenTrialResults, without names: [String]) {
        let names = Set(names.filter { !$0.isEmpty }).sorted { $0.utf8.count > $1.utf8.count }
        func anonymous(_ text: String) -> String {
            names.reduce(text) { $0.replacingOccurrences(of: $1, with: "…") }
        }
        hsmToken = results.hsmToken
        var tests = results.tests
        if let shortcomings = tests?.shortcomings { tests?.shortcomings = shortcomings.map(anonymous) }
        self.tests = tests
        row = Dictionary(uniqueKeysWithValues: results.row.map { ($0.column, $0.cell) })
        self.results = results.results.map { result in
            var result = result
            result.reason = result.reason.map(anonymous)
            result.details = result.details?.map(anonymous)
            return result
        }
    }

    /// The report as indented JSON with a final newline.
    func encoded() throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(self)) + [UInt8(ascii: "\n")]
    }
}
