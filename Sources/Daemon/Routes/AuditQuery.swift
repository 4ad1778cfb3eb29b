import AuditChain
import Ledger
import Refusals

/// What `GET /v1/audit/records` asks for.
struct AuditPageQuery: Sendable, Equatable {
    var filter: AuditFilter
    var order = AuditOrder.newestFirst
    /// The sequence behind which the page begins, in the order's direction.
    var cursor: Int?
    var limit = 100

    /// - Throws: malformed_request, which names the parameter.
    init(_ query: [String: String]) throws(Refusal) {
        var conditions = query
        if let text = conditions.removeValue(forKey: "limit") {
            guard let limit = Int(text), (1...1000).contains(limit) else {
                throw .parameter("limit", "must be a number from 1 to 1000.")
            }
            self.limit = limit
        }
        if let text = conditions.removeValue(forKey: "cursor") {
            guard let cursor = Int(text), cursor > 0 else {
                throw .parameter("cursor", "must be the next of the page before.")
            }
            self.cursor = cursor
        }
        switch conditions.removeValue(forKey: "order") {
        case nil, "newest": order = .newestFirst
        case "oldest": order = .oldestFirst
        default: throw .parameter("order", "must be newest or oldest.")
        }
        filter = try AuditFilter(query: conditions, known: Self.conditions)
    }

    fileprivate static let conditions: Set = [
        "since", "until", "key", "merchant", "caller", "outcome", "transaction",
    ]
    static let parameters = conditions.union(["limit", "cursor", "order"])
}

/// What `GET /v1/audit/export` asks for.
struct AuditExportQuery: Sendable, Equatable {
    enum Purpose: String, Sendable {
        case export, verify
    }

    var filter: AuditFilter
    var format = AuditExportFormat.jsonl
    var follows = false
    var purpose = Purpose.export

    /// - Throws: malformed_request, which names the parameter.
    init(_ query: [String: String]) throws(Refusal) {
        var conditions = query
        if let text = conditions.removeValue(forKey: "format") {
            guard let format = AuditExportFormat(rawValue: text) else {
                throw .parameter("format", "must be jsonl or csv.")
            }
            self.format = format
        }
        if let text = conditions.removeValue(forKey: "purpose") {
            guard let purpose = Purpose(rawValue: text) else {
                throw .parameter("purpose", "must be export or verify.")
            }
            self.purpose = purpose
        }
        switch conditions.removeValue(forKey: "follow") {
        case nil, "false": break
        case "true": follows = true
        default: throw .parameter("follow", "must be true or false.")
        }
        filter = try AuditFilter(query: conditions, known: AuditPageQuery.conditions)
        if filter.leavesGaps, follows || purpose == .verify {
            throw Refusal(
                .malformedRequest,
                "The query's conditions other than since and until choose single records, which cannot be followed or "
                    + "verified; leave out follow and purpose=verify, or the conditions.",
                details: follows ? "follow" : "purpose")
        }
        if follows, filter.until != nil || purpose == .verify {
            throw .parameter("follow", "has no end: leave out until, and purpose=verify.")
        }
        if purpose == .verify, format == .csv {
            throw .parameter("format", "must be jsonl for purpose=verify: CSV cannot be verified.")
        }
    }
}

extension AuditExportQuery {
    static let parameters = AuditPageQuery.conditions.union(["format", "follow", "purpose"])
}

extension AuditFilter {
    fileprivate init(query: [String: String], known: Set<String>) throws(Refusal) {
        for (name, text) in query.sorted(by: { $0.key < $1.key }) {
            // An unknown name is not repeated: it may be anything, a mistyped account number too.
            guard known.contains(name) else {
                throw Refusal(
                    .malformedRequest, "The query has a parameter that is not known here.",
                    details: "conditions are: \(known.sorted().joined(separator: ", "))")
            }
            guard !text.isEmpty else { throw .parameter(name, "is empty.") }
        }
        do throws(AuditFilter.Unreadable) {
            try self.init(query)
        } catch {
            throw Refusal(.malformedRequest, "In the query, \(error.description)", details: error.name)
        }
    }
}

extension Refusal {
    fileprivate static func parameter(_ name: String, _ rule: String) -> Refusal {
        Refusal(.malformedRequest, "The query's \(name) \(rule)", details: name)
    }
}
