import Foundation
import Refusals
import StrictJSON
import TestSupport
import Testing

@testable import DaemonAPI

/// Compares Sources/Service/DaemonAPI/openapi.json with the code. `scripts/check-openapi` checks that the file is
/// valid.
@Suite("OpenAPI file")
struct OpenAPIFileTests {
    let document: JSONObject

    init() throws {
        let file = ProjectFiles.url("Sources/Service/DaemonAPI/openapi.json")
        let limits = JSONLimits(maximumDepth: 64)
        document = try #require(try JSONValue(parsing: Array(Data(contentsOf: file)), limits: limits).objectValue)
    }

    @Test("lists every refusal code with the status of the error table")
    func statuses() throws {
        let schema = try #require(
            document["components"]?.objectValue?["schemas"]?.objectValue?["RefusalCode"]?.objectValue)
        let rows = try #require(schema["description"]?.stringValue).split(separator: "\n")
        for code in RefusalCode.allCases {
            let row = "| \(ErrorTable.row(for: code).status) | \(code.rawValue) |"
            #expect(rows.contains { $0.hasPrefix(row) }, "\(row) is missing")
        }
        #expect(rows.filter { $0.hasPrefix("| 4") || $0.hasPrefix("| 5") }.count == RefusalCode.allCases.count)
    }

    @Test("describes a code in an operation only under the code's status")
    func responses() throws {
        var seen: Set<String> = []
        let responses = try #require(document["components"]?.objectValue?["responses"]?.objectValue)
        for (name, path) in try operations() {
            for (status, response) in path.members {
                var described = response
                if let reference = response.objectValue?["$ref"]?.stringValue {
                    described = try #require(responses[String(reference.split(separator: "/").last ?? "")])
                }
                for code in codes(in: try named(described)) {
                    let known = try #require(RefusalCode(rawValue: code), "\(name) describes \(code)")
                    #expect(String(ErrorTable.row(for: known).status) == status, "\(name), \(code)")
                    seen.insert(code)
                }
            }
        }
        // No operation describes these codes.
        let unused: Set<String> = ["method_not_allowed"]
        #expect(Set(RefusalCode.allCases.map(\.rawValue)).subtracting(seen) == unused)
    }

    /// The responses of each operation, with the operation's name.
    private func operations() throws -> [(String, JSONObject)] {
        let paths = try #require(document["paths"]?.objectValue)
        return paths.members.flatMap { template, item in
            (item.objectValue?.members ?? []).compactMap { method, operation in
                operation.objectValue?["responses"]?.objectValue.map { ("\(method) \(template)", $0) }
            }
        }
    }

    /// The schema that the response refers to; the response itself if it refers to none.
    private func named(_ response: JSONValue) throws -> JSONValue {
        let content = response.objectValue?["content"]?.objectValue?["application/json"]
        let name = content?.objectValue?["schema"]?.objectValue?["$ref"]?.stringValue?.split(separator: "/").last
        guard let name else { return response }
        return try #require(document["components"]?.objectValue?["schemas"]?.objectValue?[String(name)])
    }

    /// The values that all schemas within `value` permit for `code`.
    private func codes(in value: JSONValue) -> [String] {
        switch value {
        case .object(let object):
            let own = object["code"]?.objectValue?["enum"]?.arrayValue?.compactMap(\.stringValue) ?? []
            return own + object.members.flatMap { codes(in: $0.value) }
        case .array(let array): return array.flatMap { codes(in: $0) }
        default: return []
        }
    }
}
