import Foundation
import ProcessorSimulator
import TestSupport
import Testing

/// The program processor-simulator, run as a process.
@Suite struct ProgramTests {
    private struct Running {
        let program: RunningProgram
        let directory: FreshDirectory

        func submit(_ request: SubmissionRequest) async throws -> RawConnection.Answer {
            let connection = try await RawConnection(directory.path("socket"))
            try await connection.send(request.message)
            return try await connection.answer()
        }

        func ask(for payment: String) async throws -> RawConnection.Answer {
            let connection = try await RawConnection(directory.path("socket"))
            try await connection.send("GET /authorizations/\(payment) HTTP/1.1\r\nHost: x\r\n\r\n")
            return try await connection.answer()
        }
    }

    private func start(in directory: FreshDirectory, _ more: String...) async throws -> Running {
        let program = try RunningProgram(
            Program.built("processor-simulator"),
            ["--listen", "unix:\(directory.path("socket"))", "--log", directory.path("log")] + more)
        try await wait(for: "the simulator to listen, it says: \(program.error)") {
            program.error.contains("listening on unix:") || !program.isRunning
        }
        return Running(program: program, directory: directory)
    }

    private func summary(_ directory: FreshDirectory, _ more: String...) async throws -> ProgramResult {
        try await Program.run(
            Program.built("processor-simulator"), ["summary", "--log", directory.path("log")] + more)
    }

    @Test("repeats its answers after a kill at any time, and continues its count of submissions")
    func killed() async throws {
        let directory = try FreshDirectory()
        var running = try await start(in: directory)
        let payments = (1...9).map { String(repeating: String($0), count: 64) }
        for (position, payment) in payments.enumerated() {
            #expect(try await running.submit(SubmissionRequest(cents: 80, payment: payment)).status == 200)
            running.program.signal(SIGKILL)
            _ = try await running.program.result()
            running = try await start(in: directory)
            let asked = try await running.ask(for: payment)
            #expect(asked.status == 200 && asked.body.contains(#""status":"captured""#))
            #expect(asked.body.contains("sim-00000\(position + 1)"))
        }
        #expect(try await summary(directory).status == 0)
        _ = try await running.submit(SubmissionRequest(cents: 80, payment: payments[0]))
        let counted = try await summary(directory)
        #expect(counted.status == 1 && counted.output.contains("submitted 2 times: \(payments[0])"))
        running.program.signal(SIGTERM)
        #expect(try await running.program.result().status == 0)
    }

    @Test("exits with 0 at SIGTERM after the current requests, and writes no card data to disk or standard error")
    func stopped() async throws {
        let directory = try FreshDirectory()
        let running = try await start(in: directory, "--late", "0.5")
        let connection = try await RawConnection(directory.path("socket"))
        try await connection.send(SubmissionRequest(cents: 88).message)
        try await wait(for: "the submission's line") {
            try String(contentsOfFile: directory.path("log"), encoding: .utf8).contains("submitted")
        }
        _ = try await running.submit(SubmissionRequest().with("minorUnits", "1"))
        running.program.signal(SIGTERM)
        #expect(try await connection.everything().contains(#""status":"authorized""#))
        let result = try await running.program.result()
        #expect(result.status == 0)
        let log = try String(contentsOfFile: directory.path("log"), encoding: .utf8)
        #expect(log.contains("answered"))
        for secret in [SubmissionRequest.accountNumber, SubmissionRequest.cryptogram, "301231"] {
            #expect(!log.contains(secret) && !result.error.contains(secret) && !result.output.contains(secret))
        }
    }

    @Test("removes an incomplete last line, and reports it on standard error")
    func torn() async throws {
        let directory = try FreshDirectory()
        try directory.write(#"{"time":"2026-01"#, to: "log")
        let running = try await start(in: directory)
        #expect(running.program.error.contains("torn"))
        #expect(try await running.submit(SubmissionRequest()).status == 200)
        let counted = try await summary(directory, "--output", "json")
        #expect(
            counted.output
                == #"{"payments":1,"submissions":1,"answers":1,"submittedTwice":0,"outcomes":{"authorized":1},"again":[]}"#
                + "\n")
    }

    @Test("answers 503 when the disk is full, and keeps earlier lines of the log complete")
    func noRoom() async throws {
        let directory = try FreshDirectory()
        // The process may write files of at most 1,024 bytes. It ignores SIGXFSZ, so that a write beyond the limit
        // fails with an error.
        let program = try RunningProgram(
            Program.installed("bash"),
            [
                "-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\" 2>/dev/null", Program.built("processor-simulator"),
                "--listen", "unix:\(directory.path("socket"))", "--log", directory.path("log"),
            ])
        let running = Running(program: program, directory: directory)
        try await wait(for: "the socket") { FileManager.default.fileExists(atPath: directory.path("socket")) }
        var statuses: [Int] = []
        for number in 1...9 {
            let payment = String(repeating: String(number), count: 64)
            statuses.append(try await running.submit(SubmissionRequest(payment: payment)).status)
        }
        let answered = statuses.filter { $0 == 200 }.count
        // A submission's two lines have 201 and 143 bytes, so the lines of two submissions fit.
        #expect(statuses == Array(repeating: 200, count: 2) + Array(repeating: 503, count: 7))
        #expect(try await summary(directory, "--output", "json").output.contains(#""answers":\#(answered),"#))
        program.signal(SIGTERM)
        #expect(try await program.result().status == 0)
    }

    @Test("lists the amounts of every scenario in --help")
    func help() async throws {
        let help = try await Program.run(Program.built("processor-simulator"), ["--help"])
        #expect(help.status == 0)
        for scenario in Scenario.allCases { #expect(help.output.contains("\n  \(scenario.digits)  "), "\(scenario)") }
    }

    @Test(
        "exits with 64 for wrong usage, 75 for a log in use, 65 for a damaged log, 73 for a missing directory"
    )
    func statuses() async throws {
        let directory = try FreshDirectory()
        let running = try await start(in: directory)
        func status(_ listen: String, _ log: String) async throws -> Int32 {
            try await Program.run(Program.built("processor-simulator"), ["--listen", listen, "--log", log]).status
        }
        let (socket, log) = ("unix:\(directory.path("other"))", directory.path("log"))
        #expect(try await status("0.0.0.0:9000", directory.path("log-2")) == 64)
        #expect(try await status(socket, log) == 75)
        #expect(try await status("unix:\(directory.path("socket"))", directory.path("log-2")) == 75)
        try directory.write("{}\n", to: "damaged")
        #expect(try await status(socket, directory.path("damaged")) == 65)
        #expect(try await status(socket, directory.path("missing/log")) == 73)
        #expect(try await status("unix:\(directory.path("missing/socket"))", directory.path("log-3")) == 73)
        #expect(running.program.isRunning)
    }
}
