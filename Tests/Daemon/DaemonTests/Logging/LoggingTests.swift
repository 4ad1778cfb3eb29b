import Foundation
import Glibc
import Logging
import StrictJSON
import TestSupport
import Testing

@testable import Daemon
@testable import Telemetry

@Suite("Log lines")
struct LoggingTests {
    /// A log that writes into a pipe, which the test reads.
    private final class PipeLog: Sendable {
        let log: StandardErrorLog
        let readEnd: CInt
        let writeEnd: CInt

        init(_ settings: LogSettings = .init(), maximumBacklogBytes: Int = 1024 * 1024) throws {
            var ends: [CInt] = [0, 0]
            try #require(unsafe pipe(&ends) == 0)
            readEnd = ends[0]
            writeEnd = ends[1]
            _ = fcntl(readEnd, F_SETFL, O_NONBLOCK)
            log = StandardErrorLog(
                settings, sink: LogSink(descriptor: writeEnd, maximumBacklogBytes: maximumBacklogBytes))
        }

        deinit {
            close(readEnd)
            close(writeEnd)
        }

        /// Fills the pipe with empty lines, so that nothing more fits until it is read.
        func fill() {
            _ = fcntl(writeEnd, F_SETFL, O_NONBLOCK)
            var lines = [UInt8](repeating: 0x0A, count: 4096)
            while unsafe Glibc.write(writeEnd, &lines, lines.count) > 0 {}
            _ = fcntl(writeEnd, F_SETFL, 0)
        }

        func read() -> String {
            var text: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = unsafe Glibc.read(readEnd, &buffer, buffer.count)
                guard count > 0 else { return String(decoding: text, as: UTF8.self) }
                text += buffer.prefix(count)
            }
        }

        func lines() -> [Substring] {
            log.flush()
            return read().split(separator: "\n")
        }
    }

    private func object(_ line: Substring) throws -> JSONObject {
        guard case .object(let object) = try JSONValue(parsing: Array(line.utf8)) else {
            throw WrongLine(line: String(line))
        }
        return object
    }

    private struct WrongLine: Error { let line: String }

    @Test("writes time, level, logger, message and metadata in a JSON line")
    func jsonLine() throws {
        let pipe = try PipeLog()
        var logger = pipe.log.logger("paytokend")
        logger[metadataKey: "node"] = "n1"
        logger.warning("look", metadata: ["a": "1", "list": ["x", "y"], "level": "mine"])
        let lines = pipe.lines()
        let line = try object(try #require(lines.first))
        #expect(lines.count == 1)
        #expect(line.members.map(\.name) == ["time", "level", "logger", "message", "a", "level_", "list", "node"])
        #expect(line["level"] == .string("warning") && line["logger"] == .string("paytokend"))
        #expect(line["message"] == .string("look") && line["a"] == .string("1") && line["node"] == .string("n1"))
        #expect(line["list"] == .array([.string("x"), .string("y")]))
        guard case .string(let time)? = line["time"] else { throw WrongLine(line: "\(line)") }
        #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil)
    }

    @Test("writes the same in a text line, with values quoted where needed")
    func textLine() throws {
        let pipe = try PipeLog(LogSettings(level: .info, format: .text))
        pipe.log.logger("paytokend").info("look here", metadata: ["a": "plain", "b": "two words", "c": "q\"uote"])
        let lines = pipe.lines()
        #expect(lines.count == 1)
        #expect(lines.first?.hasSuffix(#"Z info paytokend: look here a=plain b="two words" c="q\"uote""#) == true)
    }

    @Test("lets no value begin a new line", arguments: LogSettings.Format.allCases)
    func noInjection(format: LogSettings.Format) throws {
        let pipe = try PipeLog(LogSettings(level: .info, format: format))
        let evil = "x\n{\"level\":\"error\"}\r\u{1B}[2J\u{2028}\u{0}\u{7F}\u{202E}"
        pipe.log.logger("l").info("\(evil)", metadata: ["v": "\(evil)", "\(evil)": "v"])
        let text = pipe.lines()
        #expect(text.count == 1)
        let scalars = Set((text.first ?? "").unicodeScalars)
        #expect(scalars.isDisjoint(with: ["\r", "\u{1B}", "\u{0}", "\u{7F}"]))
        if format == .text { #expect(scalars.isDisjoint(with: ["\u{2028}", "\u{202E}"])) }
    }

    @Test("truncates a long value")
    func cutsLongValues() throws {
        let pipe = try PipeLog()
        pipe.log.logger("l").info("m", metadata: ["v": "\(String(repeating: "x", count: 100_000))"])
        let line = try #require(pipe.lines().first)
        #expect(line.utf8.count < LogLine.longestValue + 300)
    }

    @Test("changes the level while loggers are in use, except for one with its own level")
    func changesLevel() throws {
        let pipe = try PipeLog(LogSettings(level: .info, format: .json))
        let follower = pipe.log.logger("f")
        var own = pipe.log.logger("o")
        own.logLevel = .error
        follower.debug("hidden")
        pipe.log.level = .debug
        follower.debug("shown")
        own.info("hidden")
        pipe.log.level = .error
        follower.warning("hidden")
        let messages = try pipe.lines().map { try object($0)["message"] }
        #expect(messages == [.string("shown")])
    }

    @Test("never writes into another file that has reused a closed descriptor's number")
    func closedDescriptor() throws {
        let directory = try FreshDirectory()
        let descriptor = unsafe open(directory.path("log"), O_CREAT | O_WRONLY, 0o600)
        try #require(descriptor >= 0)
        let log = StandardErrorLog(.init(), sink: LogSink(descriptor: descriptor))
        log.logger("test").info("the first line")
        let other = unsafe open(directory.path("other"), O_CREAT | O_WRONLY, 0o600)
        // The log's descriptor now refers to the other file.
        try #require(dup2(other, descriptor) == descriptor)
        log.flush()
        #expect(FileManager.default.contents(atPath: directory.path("other"))?.isEmpty == true)
        let logged = FileManager.default.contents(atPath: directory.path("log")) ?? Data()
        #expect(String(decoding: logged, as: UTF8.self).contains("the first line"))
        close(descriptor)
        close(other)
    }

    @Test("never waits for a reader that has stopped, and reports what it dropped")
    func neverBlocks() async throws {
        let pipe = try PipeLog(maximumBacklogBytes: 100_000)
        let logger = pipe.log.logger("l")
        // These lines have far more bytes than the pipe's 64 KiB and the backlog can hold. A logger that waited for the
        // reader would never finish.
        for index in 0..<10_000 { logger.info("line \(index)") }
        var (text, after) = ("", 0)
        // Lines logged before the reader has caught up are also dropped and counted.
        while !text.contains("\"after\"") {
            text += pipe.read()
            logger.info("after")
            after += 1
            pipe.log.flush()
        }
        // The log then reports the number of dropped lines, so that every line either appears or is counted.
        try await wait(for: "an account of all lines") {
            pipe.log.flush()
            text += pipe.read()
            guard text.hasSuffix("\n") else { return false }
            let lines = try text.split(separator: "\n").map { try object($0) }
            let notices = lines.filter {
                $0["message"] == .string("log lines were dropped because standard error was not read")
            }
            let dropped = notices.compactMap { notice -> Int? in
                guard case .string(let count)? = notice["lines"] else { return nil }
                return Int(count)
            }
            return dropped.reduce(0, +) == 10_000 + after - (lines.count - notices.count)
        }
        let lines = try text.split(separator: "\n").map { try object($0) }
        #expect(lines.first?["message"] == .string("line 0"))
        #expect(lines.contains { $0["message"] == .string("after") })
    }

    @Test("drops and counts a line that fits alone, but not together with the number of lines dropped before it")
    func accountWithoutRoom() throws {
        let pipe = try PipeLog(maximumBacklogBytes: 1200)
        let logger = pipe.log.logger("l")
        pipe.fill()
        for text in [String(repeating: "x", count: 1000), String(repeating: "y", count: 1000)] {
            for _ in 0..<2 { logger.info("\(text)") }
        }
        logger.info("short")
        _ = pipe.read()
        _ = pipe.lines()
        logger.info("after")
        let lines = try pipe.lines().map { try object($0) }
        #expect(lines.map { $0["message"] }.first == .string("after"))
        #expect(lines.last?["lines"] == .string("4"))
    }

    @Test("writes each line whole while others log")
    func wholeLines() async throws {
        let pipe = try PipeLog()
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<4 {
                group.addTask {
                    let logger = pipe.log.logger("t\(task)")
                    for index in 0..<50 { logger.info("m", metadata: ["i": "\(index)"]) }
                }
            }
        }
        let lines = try pipe.lines().map { try object($0) }
        #expect(lines.count == 200)
    }
}
