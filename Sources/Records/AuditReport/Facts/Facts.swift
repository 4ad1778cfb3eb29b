import AuditChain
import StrictJSON

/// A value of the report's JSON.
protocol ReportFact {
    var fact: JSONValue { get }
}

extension JSONValue: ReportFact {
    var fact: JSONValue { self }

    /// Makes an object of these members, without those that are nil.
    static func facts(_ members: KeyValuePairs<String, (any ReportFact)?>) -> JSONValue {
        .object(JSONObject(members.compactMap { name, value in value.map { (name, $0.fact) } }) ?? JSONObject())
    }
}

extension String: ReportFact { var fact: JSONValue { .string(self) } }
extension Bool: ReportFact { var fact: JSONValue { .bool(self) } }
extension Int: ReportFact {
    var fact: JSONValue { .number(JSONNumber(self)) }
    /// The number, or nil for zero.
    var ifAny: Int? { self == 0 ? nil : self }
}
extension Array: ReportFact where Element: ReportFact { var fact: JSONValue { .array(map(\.fact)) } }
extension AuditTime: ReportFact { var fact: JSONValue { .string(text) } }
extension AuditDigest: ReportFact { var fact: JSONValue { .string(base64) } }
extension AuditNode: ReportFact { var fact: JSONValue { .string(name) } }
extension RecordPlace: ReportFact { var fact: JSONValue { .string(text) } }
extension RecordMoment: ReportFact { var fact: JSONValue { .facts(["record": place, "time": time]) } }
extension RequestTally {
    /// The times of the first and the last request, and the figure of the records.
    func facts(_ figures: Figures, _ which: String) -> JSONValue {
        .facts(["first": first, "last": last, "requests": figures.figure(records, which)])
    }
}

/// The figures whose records the page's last part lists, in the order of the page.
final class Figures {
    private(set) var all: [JSONValue] = []

    /// Returns a figure: its count with its number in the list, or with its record if that is the only one.
    ///
    /// - Parameter which: a description of the records that the figure counts, such as their event and outcome.
    func figure(_ records: RecordReferences, _ which: String) -> JSONValue {
        guard records.count > 1 else {
            return .facts(["count": records.count, "record": records.beginning.first])
        }
        let number = all.count + 1
        all.append(
            .facts([
                "number": number, "which": which,
                "parts": records.parts.map {
                    .facts(["node": $0.node, "count": $0.count, "first": $0.first, "last": $0.last])
                } as [JSONValue],
                "records": records.beginning,
                "complete": records.beginning.count == records.count,
            ]))
        return .facts(["count": records.count, "number": number])
    }
}
