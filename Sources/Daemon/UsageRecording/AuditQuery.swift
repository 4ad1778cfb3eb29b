package import AuditChain
package import Ledger
package import Refusals

/// The nodes whose records a query selects: one (`node=NAME`), all (`node=all`), or this node if the parameter is absent.
package enum NodeQuery: Sendable, Equatable {
    case own
    case one(AuditNode)
    case all

    /// Removes the parameter `node` from the query, and parses it.
    package init(takenFrom query: inout [String: String]) throws(Refusal) {
        self =
            try query.take(Self.parameter, "must be a node's name, or all.") { text in
                text == "all" ? .all : AuditNode(text).map { .one($0) }
            } ?? .own
    }

    package static let parameter = "node"
}

/// The query of `GET /v1/audit/records`.
package struct AuditPageQuery: Sendable, Equatable {
    package var node: NodeQuery
    package var filter: AuditFilter
    package var order = AuditOrder.newestFirst
    /// The position after which the page begins, in the direction of ``order``; nil for the first page.
    package var cursor: MergedRecords.Cursor?
    package var limit = 100

    /// - Throws: malformed_request, which names the parameter at fault.
    package init(_ query: [String: String]) throws(Refusal) {
        var conditions = query
        node = try NodeQuery(takenFrom: &conditions)
        let node = node
        limit =
            try conditions.take("limit", "must be a number from 1 to 1000.") { text in
                Int(text).flatMap { (1...1000).contains($0) ? $0 : nil }
            } ?? limit
        cursor = try conditions.take("cursor", "must be the next of the page before.") { .init($0, of: node) }
        order =
            try conditions.take("order", "must be newest or oldest.") {
                ["newest": .newestFirst, "oldest": .oldestFirst][$0]
            } ?? order
        filter = try AuditFilter(query: conditions, known: Self.conditions)
    }

    fileprivate static let conditions: Set = [
        "since", "until", "key", "merchant", "caller", "outcome", "transaction",
    ]
    package static let parameters = conditions.union(["limit", "cursor", "order", NodeQuery.parameter])
}

/// The query of `GET /v1/audit/export`.
package struct AuditExportQuery: Sendable, Equatable {
    package enum Purpose: String, Sendable {
        case export, verify
    }

    package var node: NodeQuery
    package var filter: AuditFilter
    package var format = AuditExportFormat.jsonl
    package var follows = false
    package var purpose = Purpose.export
    /// The sequence of the first requested record; nil if the filter's times determine where the export begins.
    package var from: Int?

    /// - Throws: malformed_request, which names the parameter at fault.
    package init(_ query: [String: String]) throws(Refusal) {
        var conditions = query
        node = try NodeQuery(takenFrom: &conditions)
        format = try conditions.take("format", "must be jsonl or csv.") { .init(rawValue: $0) } ?? format
        purpose = try conditions.take("purpose", "must be export or verify.") { .init(rawValue: $0) } ?? purpose
        follows =
            try conditions.take("follow", "must be true or false.") { ["true": true, "false": false][$0] } ?? follows
        from = try conditions.take("from", "must be a record's sequence, from 1.") { text in
            Int(text).flatMap { $0 >= 1 ? $0 : nil }
        }
        filter = try AuditFilter(query: conditions, known: AuditPageQuery.conditions)
        if from != nil, filter != AuditFilter() || follows || node == .all || format == .csv {
            throw .parameter(
                "from",
                "selects one node's chain up to its end, as JSON lines: leave out follow, node=all, csv and all "
                    + "conditions.")
        }
        if filter.leavesGaps, follows || purpose == .verify {
            throw Refusal(
                .malformedRequest,
                "The query's conditions other than since and until select single records, which cannot be followed or "
                    + "verified; leave out follow and purpose=verify, or the conditions.",
                details: follows ? "follow" : "purpose")
        }
        if follows, node != .own {
            throw .parameter(
                "follow", "works for this node's record only: another node's record ends with that node's last seal.")
        }
        if follows, filter.until != nil || purpose == .verify {
            throw .parameter("follow", "has no end: leave out until and purpose=verify.")
        }
        if purpose == .verify, format == .csv {
            throw .parameter("format", "must be jsonl for purpose=verify: CSV cannot be verified.")
        }
    }
}

extension AuditExportQuery {
    package static let parameters = AuditPageQuery.conditions.union([
        "format", "follow", "from", "purpose", NodeQuery.parameter,
    ])
}

extension AuditFilter {
    fileprivate init(query: [String: String], known: Set<String>) throws(Refusal) {
        for (name, text) in query.sorted(by: { $0.key < $1.key }) {
            // The refusal does not repeat the unknown name, which may be anything, even a mistyped account number.
            guard known.contains(name) else {
                throw Refusal(
                    .malformedRequest, "The query has an unknown parameter.",
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

extension [String: String] {
    /// Removes a parameter from the query, and returns its value; nil if the query does not have it.
    ///
    /// - Parameters:
    ///   - rule: the end of the refusal's sentence, which states the permitted values.
    ///   - read: a function that parses a permitted value, and returns nil for any other.
    fileprivate mutating func take<Parameter>(
        _ name: String, _ rule: String, _ read: (String) -> Parameter?
    ) throws(Refusal) -> Parameter? {
        guard let text = removeValue(forKey: name) else { return nil }
        guard let parameter = read(text) else { throw .parameter(name, rule) }
        return parameter
    }
}

extension Refusal {
    fileprivate static func parameter(_ name: String, _ rule: String) -> Refusal {
        Refusal(.malformedRequest, "The query's \(name) \(rule)", details: name)
    }
}
