import ArgumentParser
import AuditChain
import CommandOutput
import DaemonAPI
import StrictJSON

struct AuditListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Lists the record of who used which key, the newest first.",
        discussion: """
            Lists the records that match all given conditions. --output json prints the records as they are stored, \
            including the values of each configuration_values, which the table only counts. Reading the record is \
            recorded too.

              paytokenctl audit list --since 24h --outcome decryption_failed
              paytokenctl audit list --key 1f8b3c90 --since 2026-03-01 --until 2026-03-31
              paytokenctl audit list --key 1f8b3c90 --caller checkout --limit 1000
              paytokenctl audit list --transaction 3f0c… --output json | jq .

            If several hosts share a ledger, each has its own record. --node all merges them by their times, so a \
            wrong clock changes the order; each node's own order is that of its sequences:

              paytokenctl audit list --node all --transaction 3f0c…

            In a terminal the list is as wide as the terminal: long values end with an ellipsis, and less important \
            columns are left out with a note. --wide shows everything; a file or a pipe always gets everything.
            """)

    /// The largest number of records that one list shows. An export has no such limit.
    static let maximumLimit = 10_000

    @OptionGroup var whose: NodeOption
    @OptionGroup var period: PeriodOptions

    @OptionGroup var conditions: RecordConditions

    @Option(
        help: ArgumentHelp(
            "The maximum number of records, 1 to \(maximumLimit); for more, audit export takes the same conditions.",
            valueName: "number"))
    var limit = 100

    @OptionGroup var width: WideOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        guard (1...Self.maximumLimit).contains(limit) else {
            throw ValidationError(
                "--limit is a number from 1 to \(Self.maximumLimit). For more, paytokenctl audit export takes the same "
                    + "conditions and has no limit.")
        }
    }

    func run() async throws {
        let (items, hasMore) = try await records()
        switch format.output {
        case .json: try Console.output(json: JSONValue.array(items).compact)
        case .table where items.isEmpty: Console.error("No record matches.")
        case .table: try Console.output(AuditRecordTable.of(try items.map(Self.entry)), width)
        }
        if hasMore {
            Console.error(
                "Older records match too. See them with a larger --limit, at most \(Self.maximumLimit), or all with "
                    + "paytokenctl audit export, which takes the same conditions.")
        }
    }

    private static func entry(_ item: JSONValue) throws -> AuditEntry {
        do {
            return try AuditEntry(line: item.compact)
        } catch {
            throw CommandFailure(
                .unreachable,
                "A record is not understood: \(error). Do paytokend and paytokenctl have the same version? --output json prints it as it is."
            )
        }
    }

    /// Returns the requested number of records, which it reads page by page. `hasMore` is true if there are further
    /// records.
    private func records() async throws -> (items: [JSONValue], hasMore: Bool) {
        let connection = socket.connection
        var items: [JSONValue] = []
        var cursor: String?
        repeat {
            let page = min(limit - items.count, 1000)
            let query =
                whose.query + period.query + conditions.query + [("limit", String(page))]
                + (cursor.map { [("cursor", $0)] } ?? [])
            let answer = try await connection.send(.get("/v1/audit/records" + QueryText.of(query)))
            guard let members = (try? JSONValue(parsing: answer.body))?.objectValue,
                let found = members["items"]?.arrayValue, found.count <= page
            else { throw connection.unexpectedAnswer(answer.status) }
            items += found
            cursor = members["next"]?.stringValue
            // After an empty page that is not the last, the same request would be repeated endlessly.
            guard cursor == nil || !found.isEmpty else { throw connection.unexpectedAnswer(answer.status) }
        } while cursor != nil && items.count < limit
        return (items, cursor != nil)
    }
}

/// Records as a table for display.
enum AuditRecordTable {
    static func of(_ entries: [AuditEntry]) -> Table {
        // If all records belong to one node, a column with its name adds nothing.
        let areOfOneNode = Set(entries.map(\.node)).count < 2
        var table = Table(columns: [
            "TIME", Table.Column("NODE", importance: areOfOneNode ? 0 : 6, shortening: .beginning), "SEQUENCE",
            Table.Column("EVENT", shortening: .beginning), Table.Column("OUTCOME", shortening: .beginning),
            Table.Column("CALLER", importance: 5, shortening: .beginning),
            Table.Column("MERCHANT", importance: 4, shortening: .beginning), Table.Column("KEY", importance: 3),
            Table.Column("TRANSACTION", importance: 2, shortening: .beginning),
            Table.Column("DETAILS", importance: 1, shortening: .words),
        ])
        for entry in entries {
            table.add([
                entry.time.text, entry.node.name, String(entry.sequence), entry.event, entry.outcome,
                entry.caller.map { $0.name?.text ?? String($0.uid) } ?? "-", entry.merchant ?? "-",
                // The number of digits is one that `--key` and `key show` accept.
                entry.publicKeyHash.map { String($0.hex.prefix(8)) } ?? "-", entry.transactionId?.hex ?? "-",
                details(entry),
            ])
        }
        return table
    }

    /// The members specific to the event. A reference is omitted, because a hash is of no use to a person. The values
    /// of a configuration, of which there are at least dozens, are only counted.
    private static func details(_ entry: AuditEntry) -> String {
        entry.details.members.filter { $0.name != "reference" }
            .flatMap { member in
                if entry.event == AuditEvent.Name.configurationValues.rawValue, let values = member.value.objectValue {
                    return [(member.name, String(values.members.count))]
                }
                return Flattening.pairs(member.value, name: member.name)
            }
            .map { "\($0.0)=\($0.1)" }.joined(separator: " ")
    }
}
