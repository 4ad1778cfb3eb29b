import ProcessorSimulator
import TestSupport
import Testing

/// The scenarios that an amount's last two digits choose, each tested over a connection.
@Suite struct ScenarioTests {
    /// The answer that a client receives to its submission.
    enum Wire: Sendable {
        case status(Int, String)
        /// An answer with HTTP status 200 and a body that contains this payment status.
        case says(String)
        case nothing
        case cut
        case cutInside
        case saysTwice(String)
        case notJSON
        case otherPayment
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let cents: ClosedRange<Int>
        let wire: Wire
        /// The payment status that a later GET returns; nil if the payment is unknown.
        let after: String?
        let log: [String]

        var testDescription: String { "\(cents)" }
    }

    static let rows = [
        Row(
            cents: 0...79, wire: .says("authorized"), after: "authorized",
            log: ["submitted/authorized/1", "answered/1"]),
        Row(cents: 80...80, wire: .says("captured"), after: "captured", log: ["submitted/captured/1", "answered/1"]),
        Row(
            cents: 81...81, wire: .says(#"declined","reason":"insufficient_funds"#), after: "declined",
            log: ["submitted/insufficient_funds/1", "answered/1"]),
        Row(
            cents: 82...82, wire: .says(#"declined","reason":"do_not_honor"#), after: "declined",
            log: ["submitted/do_not_honor/1", "answered/1"]),
        Row(cents: 83...83, wire: .says("error"), after: "error", log: ["submitted/error/1", "answered/1"]),
        Row(cents: 84...84, wire: .nothing, after: "authorized", log: ["submitted/no_answer/1"]),
        Row(cents: 85...85, wire: .cut, after: nil, log: []),
        Row(cents: 86...86, wire: .cut, after: "authorized", log: ["submitted/cut_without_answer/1"]),
        Row(cents: 87...87, wire: .cutInside, after: "authorized", log: ["submitted/cut_in_answer/1", "answered/1"]),
        Row(cents: 88...88, wire: .says("authorized"), after: "authorized", log: ["submitted/late/1", "answered/1"]),
        Row(
            cents: 89...89, wire: .saysTwice("authorized"), after: "authorized",
            log: ["submitted/answered_twice/1", "answered/1", "answered/1"]),
        Row(cents: 90...90, wire: .notJSON, after: "authorized", log: ["submitted/not_json/1", "answered/1"]),
        Row(
            cents: 91...91, wire: .status(500, "internal_error"), after: "error",
            log: ["submitted/status_500/1", "answered/1"]),
        Row(
            cents: 92...92, wire: .otherPayment, after: "authorized",
            log: ["submitted/other_payment/1", "answered/1"]),
        Row(
            cents: 93...93, wire: .says("pending"), after: "pending", log: ["submitted/pending_first/1", "answered/1"]),
        Row(
            cents: 94...99, wire: .says("authorized"), after: "authorized",
            log: ["submitted/authorized/1", "answered/1"]),
    ]

    @Test("defines a scenario for every pair of last digits, once")
    func whole() {
        #expect(Self.rows.flatMap { Array($0.cents) } == Array(0...99))
        #expect(Set(Self.rows.map { Scenario(minorUnits: Int64($0.cents.lowerBound)) }) == Set(Scenario.allCases))
        for row in Self.rows {
            let scenario = Scenario(minorUnits: Int64(row.cents.lowerBound))
            #expect(row.cents.allSatisfy { Scenario(minorUnits: Int64(10_000 + $0)) == scenario })
        }
    }

    @Test("answers as the amount's scenario requires, and logs the events", arguments: rows)
    func row(_ row: Row) async throws {
        for cents in Set([row.cents.lowerBound, row.cents.upperBound]) { try await check(row, cents: cents) }
    }

    private func check(_ row: Row, cents: Int) async throws {
        let simulator = try await SimulatorUnderTest.start()
        let connection = try await simulator.connect()
        try await connection.send(SubmissionRequest(cents: cents).message)
        let payment = SubmissionRequest.payment
        func expect(_ status: String) async throws {
            let answer = try await connection.answer()
            #expect(answer.status == 200)
            #expect(answer.body.contains(#""payment":"\#(payment)","status":"\#(status)""#), "\(answer)")
        }
        switch row.wire {
        case .status(let status, let code):
            let answer = try await connection.answer()
            #expect(answer.status == status && answer.body.contains(#""code":"\#(code)""#))
        case .says(let status): try await expect(status)
        case .saysTwice(let status):
            try await expect(status)
            try await expect(status)
        case .nothing:
            try await wait(for: "the submission's line") { try simulator.events == row.log }
            // This connection must stay open without an answer, so the status request uses another one.
            _ = try await simulator.ask(for: payment)
            #expect(connection.text.isEmpty && !connection.isClosed)
        case .cut: #expect(try await connection.everything().isEmpty)
        case .cutInside:
            let text = try await connection.everything()
            #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n") && text.contains(#"{"payment":"#) && !text.hasSuffix("}"))
        case .notJSON:
            let answer = try await connection.answer()
            #expect(answer.status == 200 && answer.body == "<html>authorized</html>")
        case .otherPayment:
            let answer = try await connection.answer()
            // Each digit d of the payment's name 0a0a… becomes 15 − d.
            let other = String(repeating: "f5", count: 32)
            #expect(answer.status == 200 && answer.body.contains(#""payment":"\#(other)","status":"authorized""#))
        }
        #expect(try simulator.events == row.log)
        let asked = try await simulator.ask(for: payment)
        if let after = row.after {
            #expect(asked.status == 200 && asked.body.contains(#""status":"\#(after)""#), "\(asked)")
        } else {
            #expect(asked.status == 404 && asked.body.contains(#""code":"not_found""#))
        }
        await simulator.server.shutdown()
    }

    @Test("reports a pending payment as authorized from the second status request on")
    func pending() async throws {
        let simulator = try await SimulatorUnderTest.start()
        let payment = SubmissionRequest.payment
        #expect(try await simulator.submit(SubmissionRequest(cents: 93)).body.contains(#""status":"pending""#))
        #expect(try await simulator.ask(for: payment).body.contains(#""status":"pending""#))
        for _ in 0..<2 {
            let answer = try await simulator.ask(for: payment)
            #expect(answer.body.contains(#""status":"authorized","authorizationCode":"S00001""#))
        }
        #expect(try simulator.events == ["submitted/pending_first/1", "answered/1", "settled/1"])
    }

    @Test("gives every payment a reference, and only an authorized one a code of six characters")
    func answers() async throws {
        let simulator = try await SimulatorUnderTest.start()
        let payment = SubmissionRequest.payment
        #expect(
            try await simulator.submit(SubmissionRequest(cents: 99)).body
                == #"{"payment":"\#(payment)","status":"authorized","authorizationCode":"S00001","reference":"sim-000001"}"#
        )
        let second = String(repeating: "1", count: 64)
        #expect(
            try await simulator.submit(SubmissionRequest(cents: 81, payment: second)).body
                == #"{"payment":"\#(second)","status":"declined","reason":"insufficient_funds","reference":"sim-000002"}"#
        )
    }

    @Test("sends a late answer after the configured delay")
    func late() async throws {
        let simulator = try await SimulatorUnderTest.start(late: .seconds(600))
        let connection = try await simulator.connect()
        try await connection.send(SubmissionRequest(cents: 88).message)
        try await wait(for: "the submission's line") { try simulator.events == ["submitted/late/1"] }
        #expect(try await simulator.ask(for: SubmissionRequest.payment).body.contains(#""status":"authorized""#))
        #expect(connection.text.isEmpty)
        #expect(try simulator.events == ["submitted/late/1"])
    }
}
