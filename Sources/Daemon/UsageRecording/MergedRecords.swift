package import AuditChain
package import Ledger

/// Reads pages of one node's records, or of several nodes' records merged by time.
///
/// The records of each chain keep their own order. The time only determines which chain provides the next record. A wrong
/// clock can therefore misplace records among those of other nodes, but no record is left out or repeated.
package struct MergedRecords: Sendable {
    /// The maximum number of nodes that are merged, since each page reads all of their chains, and the cursor names all of
    /// them.
    package static let maximumNodes = 64

    let chains: [(node: AuditNode, chain: any ChainReading)]
    let filter: AuditFilter
    let order: AuditOrder

    package init(
        chains: [(node: AuditNode, chain: any ChainReading)], filter: AuditFilter, order: AuditOrder
    ) {
        (self.chains, self.filter, self.order) = (chains, filter, order)
    }

    /// The position after a page: `42` for a single chain, `node-1:42,node-2:17` for several.
    package struct Cursor: Sendable, Equatable {
        private(set) var sequences: [AuditNode?: Int]

        /// Parses a cursor: one sequence for a query of a single node, pairs of node and sequence for a query of all nodes.
        /// Returns nil for any other text.
        init?(_ text: String, of query: NodeQuery) {
            guard case .all = query else {
                guard let sequence = Int(text), sequence > 0 else { return nil }
                sequences = [nil: sequence]
                return
            }
            sequences = [:]
            for part in text.split(separator: ",", omittingEmptySubsequences: false) {
                let pair = part.split(separator: ":", omittingEmptySubsequences: false)
                guard pair.count == 2, let node = AuditNode(String(pair[0])), let sequence = Int(pair[1]),
                    sequence >= 0,
                    sequences.updateValue(sequence, forKey: node) == nil,
                    sequences.count <= MergedRecords.maximumNodes
                else { return nil }
            }
        }

        init(_ sequences: [AuditNode?: Int]) {
            self.sequences = sequences
        }

        package var text: String {
            if let only = sequences[nil] { return String(only) }
            return sequences.map { ($0.key?.name ?? "", $0.value) }.sorted { $0.0 < $1.0 }
                .map { "\($0.0):\($0.1)" }.joined(separator: ",")
        }
    }

    package struct Page: Sendable {
        package let records: [StoredRecord]
        /// The position after this page, from which the next page is read; nil on the last page.
        package let next: Cursor?
    }

    package func page(after cursor: Cursor?, limit: Int) async throws(LedgerFailure) -> Page {
        if chains.count == 1, cursor?.sequences.keys.contains(nil) ?? true {
            let page = try await chains[0].chain.records(
                filter, order: order, after: cursor?.sequences[nil], limit: limit)
            return Page(records: page.records, next: page.next.map { Cursor([nil: $0]) })
        }
        var streams: [Stream] = []
        for (node, chain) in chains {
            // A node that appeared after the first page is left out, so that all pages show the same nodes.
            if let cursor, cursor.sequences[node] == nil { continue }
            streams.append(Stream(node: node, chain: chain, after: cursor?.sequences[node]))
        }
        var records: [StoredRecord] = []
        while records.count < limit {
            var first: (index: Int, time: AuditTime)?
            for index in streams.indices {
                try await streams[index].fill(filter, order, limit: min(100, limit))
                guard let time = streams[index].time else { continue }
                let comes = first.map { order == .newestFirst ? time > $0.time : time < $0.time } ?? true
                if comes { first = (index, time) }
            }
            guard let first, let record = streams[first.index].take() else { break }
            records.append(record)
        }
        let isOver = streams.allSatisfy(\.isOver)
        let sequences = streams.map { ($0.node, $0.positionAfterPage(order)) }
        return Page(
            records: records,
            next: isOver ? nil : Cursor(Dictionary(sequences.map { ($0.0, $0.1) }, uniquingKeysWith: max)))
    }

    /// One chain's matching records in the order of the query. They are read in batches, so some may wait here for a
    /// later place in the page.
    private struct Stream {
        let node: AuditNode
        let chain: any ChainReading
        /// The position after which the next records are read; nil for the beginning of the order.
        private var cursor: Int?
        private var last: Int?
        private var waiting: [(record: StoredRecord, time: AuditTime)] = []
        private var isAtEnd = false

        init(node: AuditNode, chain: any ChainReading, after cursor: Int?) {
            self.node = node
            self.chain = chain
            self.cursor = cursor
            last = cursor
        }

        var isOver: Bool { isAtEnd && waiting.isEmpty }
        var time: AuditTime? { waiting.first?.time }

        mutating func fill(_ filter: AuditFilter, _ order: AuditOrder, limit: Int) async throws(LedgerFailure) {
            guard waiting.isEmpty, !isAtEnd else { return }
            let page = try await chain.records(filter, order: order, after: cursor, limit: limit)
            // A damaged line has no time. It gets the latest time, and keeps its place in the chain, so that the reader
            // sees it there.
            waiting = page.records.map { ($0, (try? AuditEntry(line: $0.line))?.time ?? .latest) }
            cursor = page.next
            isAtEnd = page.next == nil
        }

        mutating func take() -> StoredRecord? {
            guard !waiting.isEmpty else { return nil }
            let record = waiting.removeFirst().record
            last = record.sequence
            return record
        }

        /// Returns the sequence after which the next page continues in this chain. If all matching records have been
        /// taken, returns a sequence after which the order of the query has no matching record.
        func positionAfterPage(_ order: AuditOrder) -> Int {
            if isOver { return order == .newestFirst ? 0 : last ?? Int(Int32.max) }
            return last ?? (order == .newestFirst ? Int.max : 0)
        }
    }
}
