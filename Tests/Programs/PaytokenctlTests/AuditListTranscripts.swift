import AuditChain
import Foundation
import TestSupport
import Testing

@testable import paytokenctl

@Suite("Transcripts: audit list")
struct AuditListTranscripts {
    private static func lines(_ records: [AuditRecord]) throws -> [String] {
        var head = ChainHead(node: try required(AuditNode("backend-1")))
        return records.map { String(decoding: head.append($0).bytes, as: UTF8.self) }
    }

    /// Returns the lines of a release, a key's suspension and the daemon's stop.
    private static func threeLines() throws -> [String] {
        let change = KeyStateChange(from: .active, to: .suspended, reason: AuditReason("a leak"))
        return try lines([
            SealedRecord.record(1),
            AuditRecord(
                time: SealedRecord.time(2), event: .keyStateChange(change),
                caller: AuditCaller(name: nil, uid: 0, gid: 0), merchant: AuditText("merchant.com.example"),
                publicKeyHash: AuditDigest(base64: Sample.hash)),
            AuditRecord(time: SealedRecord.time(3), event: .stop),
        ])
    }

    @Test("aligns the columns of the table, and prints the stored lines as JSON")
    func list() async throws {
        let lines = try Self.threeLines()
        let items = lines.reversed().joined(separator: ",")
        let daemon = try await FakeDaemon([
            "GET /v1/audit/records?limit=100": .ok(#"{"items":[\#(items)],"next":null}"#)
        ])
        let result = try await Command.paytokenctl(["audit", "list"], socket: daemon.path)
        #expect(result.status == 0)
        let id = AuditDigest.of(Array("transaction 1".utf8)).hex
        let blanks = String(repeating: " ", count: 63)
        #expect(
            result.output == """
                TIME                      NODE       SEQUENCE  EVENT             OUTCOME  CALLER    MERCHANT              KEY       TRANSACTION\(String(repeating: " ", count: 53))  DETAILS
                2026-01-31T12:00:03.000Z  backend-1  3         stop              ok       -         -                     -         -
                2026-01-31T12:00:02.000Z  backend-1  2         key_state_change  ok       0         merchant.com.example  00010203  -\(blanks)  from=active to=suspended reason=a leak
                2026-01-31T12:00:01.000Z  backend-1  1         decrypt           ok       checkout  merchant.com.example  00010203  \(id)

                """)
        #expect(result.error == "")
        let json = try await Command.paytokenctl(["audit", "list", "--output", "json"], socket: daemon.path)
        #expect(json.output == "[\(items)]\n")
    }

    @Test("shows the number of a configuration's values in the table, and the values in JSON")
    func configurationValues() async throws {
        var values = ConfigurationValues()
        for name in ["checkout", "ops", "night-shift"] { values.set("access.\(name)", ConfigurationValue(name)) }
        let lines = try Self.lines([AuditRecord(time: SealedRecord.time(1), event: values.events()[0])])
        let daemon = try await FakeDaemon([
            "GET /v1/audit/records?limit=100": .ok(#"{"items":[\#(lines[0])],"next":null}"#)
        ])
        let result = try await Command.paytokenctl(["audit", "list"], socket: daemon.path)
        #expect(result.status == 0 && result.error == "")
        #expect(
            result.output == """
                TIME                      NODE       SEQUENCE  EVENT                 OUTCOME  CALLER  MERCHANT  KEY  TRANSACTION  DETAILS
                2026-01-31T12:00:01.000Z  backend-1  1         configuration_values  ok       -       -         -    -            part=1 parts=1 values=3

                """)
        let json = try await Command.paytokenctl(["audit", "list", "--output", "json"], socket: daemon.path)
        #expect(json.output == "[\(lines[0])]\n")
    }

    /// Runs audit list for the three events in a terminal of this width.
    private func list(columns: Int, _ more: [String] = [], environment: [String: String] = [:]) async throws
        -> ProgramResult
    {
        let lines = try Self.threeLines()
        let daemon = try await FakeDaemon([
            "GET /v1/audit/records?limit=100": .ok(
                #"{"items":[\#(lines.reversed().joined(separator: ","))],"next":null}"#)
        ])
        return try await Command.inTerminal(
            columns: columns, ["audit", "list"] + more, socket: daemon.path, environment: environment)
    }

    // The expected widths were worked out by hand. In full, the columns have 24, 9, 8, 16, 7, 8, 20, 8, 64 and 38
    // characters, which makes 220 with 18 blanks between them. The column with the node is omitted first, because there
    // is only one node.
    //
    // - 132 columns: details get 16 characters, transactions get the 11 of their heading, and merchants the other 18.
    // - 100 columns: details and transactions are omitted, and merchants get 17 characters.
    // - 80 columns: keys are omitted, and also merchants, which would need 11 characters.
    @Test("fits the terminal's width with shortened values and without less important columns, and names these")
    func widths() async throws {
        let wide = try await list(columns: 132)
        #expect(
            wide.output == """
                TIME                      SEQUENCE  EVENT             OUTCOME  CALLER    MERCHANT            KEY       TRANSACTION  DETAILS
                2026-01-31T12:00:03.000Z  3         stop              ok       -         -                   -         -
                2026-01-31T12:00:02.000Z  2         key_state_change  ok       0         merchant.com.exam…  00010203  -            from=active to=…
                2026-01-31T12:00:01.000Z  1         decrypt           ok       checkout  merchant.com.exam…  00010203  \(AuditDigest.of(Array("transaction 1".utf8)).hex.prefix(10))…

                """)
        #expect(wide.error == "Left out because the terminal is narrow: NODE. See --wide.\n")
        let middle = try await list(columns: 100)
        #expect(
            middle.output == """
                TIME                      SEQUENCE  EVENT             OUTCOME  CALLER    MERCHANT           KEY
                2026-01-31T12:00:03.000Z  3         stop              ok       -         -                  -
                2026-01-31T12:00:02.000Z  2         key_state_change  ok       0         merchant.com.exa…  00010203
                2026-01-31T12:00:01.000Z  1         decrypt           ok       checkout  merchant.com.exa…  00010203

                """)
        #expect(middle.error == "Left out because the terminal is narrow: NODE, TRANSACTION, DETAILS. See --wide.\n")
        let narrow = try await list(columns: 80)
        #expect(
            narrow.output == """
                TIME                      SEQUENCE  EVENT             OUTCOME  CALLER
                2026-01-31T12:00:03.000Z  3         stop              ok       -
                2026-01-31T12:00:02.000Z  2         key_state_change  ok       0
                2026-01-31T12:00:01.000Z  1         decrypt           ok       checkout

                """)
        #expect(
            narrow.error
                == "Left out because the terminal is narrow: NODE, MERCHANT, KEY, TRANSACTION, DETAILS. See --wide.\n")
        for (result, columns) in [(wide, 132), (middle, 100), (narrow, 80)] {
            #expect(result.status == 0)
            #expect(result.output.split(separator: "\n").allSatisfy { $0.count <= columns })
        }
    }

    @Test("shows everything with --wide or an unknown width, unless COLUMNS sets the width")
    func inFull() async throws {
        let full = try await list(columns: 80, ["--wide"])
        #expect(full.status == 0 && full.error == "")
        #expect(full.output.contains("NODE") && full.output.contains("reason=a leak"))
        #expect(full.output.contains(AuditDigest.of(Array("transaction 1".utf8)).hex))
        #expect(try await list(columns: 0).output == full.output)
        #expect(try await list(columns: 80, environment: ["COLUMNS": "220"]).output == full.output)
        let exported = try await list(columns: 220, environment: ["COLUMNS": "80"])
        #expect(exported.output == (try await list(columns: 80).output))
    }

    @Test("passes every condition to the daemon with percent-encoding")
    func conditions() async throws {
        let query =
            "since=2026-01-31T11%3A00%3A00.000Z&until=2026-01-31T12%3A00%3A00.500Z&key=\(Sample.hex)"
            + "&merchant=merchant.com.example&caller=a%20b%26c&outcome=transaction_replayed&transaction=\(Sample.transaction)"
            + "&limit=7"
        let daemon = try await FakeDaemon(["GET /v1/audit/records?\(query)": .ok(#"{"items":[]}"#)])
        let result = try await Command.paytokenctl(
            [
                "audit", "list", "--since", "2026-01-31T12:00:00+01:00", "--until", "2026-01-31T12:00:00.5Z", "--key",
                Sample.hash, "--merchant", "merchant.com.example", "--caller", "a b&c", "--outcome",
                "transaction_replayed", "--transaction", Sample.transaction.uppercased(), "--limit", "7",
            ], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == "")
        #expect(result.error == "No record matches.\n")
    }

    @Test("sends the same request for every form of a key's name, and accepts times as days")
    func march() async throws {
        let period = "since=2026-03-01T00%3A00%3A00.000Z&until=2026-04-01T00%3A00%3A00.000Z"
        for (command, target) in [
            ("list", "GET /v1/audit/records?\(period)&key=KEY&limit=100"),
            ("export", "GET /v1/audit/export?\(period)&key=KEY&format=jsonl&purpose=export"),
        ] {
            for (key, sent) in [
                (Sample.hash, Sample.hex), (Sample.hex, Sample.hex), (Sample.hex.uppercased(), Sample.hex),
                (String(Sample.hex.prefix(8)), String(Sample.hex.prefix(8))),
            ] {
                let daemon = try await FakeDaemon([
                    target.replacing("KEY", with: sent): .ok(#"{"items":[],"next":null}"#)
                ])
                let result = try await Command.paytokenctl(
                    ["audit", command, "--key", key, "--since", "2026-03-01", "--until", "2026-03-31"],
                    socket: daemon.path)
                #expect(result.status == 0, "\(result)")
            }
        }
    }

    @Test("suggests audit export if --limit exceeds its bound")
    func limit() async throws {
        let result = try await Command.paytokenctl(["audit", "list", "--limit", "20000"])
        #expect(result.status == 64)
        #expect(result.error.contains("--limit is a number from 1 to 10000."))
        #expect(result.error.contains("paytokenctl audit export"))
        let help = try await Command.paytokenctl(["audit", "list", "--help"])
        #expect(help.output.contains("1 to 10000"))
    }

    @Test("collects pages up to the limit, and says that older records are omitted")
    func pages() async throws {
        let lines = try Self.lines((1...1100).map(SealedRecord.record))
        let daemon = try await FakeDaemon([
            "GET /v1/audit/records?limit=1000": .ok(
                #"{"items":[\#(lines[..<1000].joined(separator: ","))],"next":"a/b"}"#),
            "GET /v1/audit/records?limit=100&cursor=a%2Fb": .ok(
                #"{"items":[\#(lines[1000...].joined(separator: ","))],"next":"c"}"#),
        ])
        let result = try await Command.paytokenctl(
            ["audit", "list", "--limit", "1100", "--output", "json"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == "[\(lines.joined(separator: ","))]\n")
        #expect(result.error.hasPrefix("Older records match too."))
    }

    @Test("reports refusals and invalid answers")
    func refusals() async throws {
        let forbidden = try await FakeDaemon([
            "GET /v1/audit/records?limit=100": .refusal(403, "forbidden", "Not your role.")
        ])
        let refused = try await Command.paytokenctl(["audit", "list"], socket: forbidden.path)
        #expect(refused.status == 77)
        #expect(refused.error == "forbidden: Not your role.\n")
        for body in [#"{"items":{}}"#, #"{"items":[],"next":"on and on"}"#, #"{"items":[{"a":1}]}"#, "[]"] {
            let daemon = try await FakeDaemon(["GET /v1/audit/records?limit=100": .ok(body)])
            let result = try await Command.paytokenctl(["audit", "list"], socket: daemon.path)
            #expect(result.status == 69, "\(body)")
            #expect(result.output == "")
        }
    }

    @Test("accepts a time, an age or a day")
    func moments() throws {
        let now = Date(timeIntervalSince1970: 1_769_860_800)
        #expect(Moment("2026-01-31T12:00:00Z", now: now)?.time.text == "2026-01-31T12:00:00.000Z")
        #expect(Moment("2026-01-31T14:00:00.25+02:00", now: now)?.time.text == "2026-01-31T12:00:00.250Z")
        #expect(Moment("24h", now: now)?.time.text == "2026-01-30T12:00:00.000Z")
        #expect(Moment("500ms", now: now)?.time.text == "2026-01-31T11:59:59.500Z")
        // A day without a time means its beginning in `since`, and its end in `until`, in UTC.
        let day = try #require(Moment("2026-02-28", now: now))
        #expect(day.time.text == "2026-02-28T00:00:00.000Z")
        #expect(day.end.text == "2026-03-01T00:00:00.000Z")
        #expect(Moment("2028-02-28", now: now)?.end.text == "2028-02-29T00:00:00.000Z")
        let moment = try #require(Moment("2026-01-31T12:00:00Z", now: now))
        #expect(moment.end == moment.time)
        for text in ["", "yesterday", "2026-01", "2026-02-30", "24", "-1h", "2026-02-30T12:00:00Z", "2026-01-31T"] {
            #expect(Moment(text, now: now) == nil, "\(text)")
        }
    }

    @Test(
        "refuses values outside their limits",
        arguments: [
            ["--since", "yesterday"], ["--since", "1h", "--until", "2h"], ["--key", "abc"], ["--outcome", "fine"],
            ["--transaction", "abcd"], ["--limit", "0"], ["--limit", "10001"], ["--limit", "many"],
        ])
    func usage(arguments: [String]) async throws {
        let result = try await Command.paytokenctl(["audit", "list"] + arguments)
        #expect(result.status == 64)
        #expect(result.output == "")
        #expect(result.error.contains(arguments[0]) || result.error.contains("--until"), "\(result.error)")
    }
}
