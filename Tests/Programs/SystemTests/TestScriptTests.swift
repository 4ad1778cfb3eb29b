import Foundation
import TestSupport
import Testing

/// Output and exit status of scripts/test. A stand-in for `swift` writes events like Swift Testing, and exits with a
/// configured status.
@Suite("scripts/test as a program") struct TestScriptTests {
    /// Lines that `--event-stream-version 0` writes for the events of a run.
    private enum Event {
        private static let place = #"{"fileID":"ThingTests/Things.swift","line":7}"#

        static func suite(_ name: String) -> String {
            #"{"kind":"test","payload":{"kind":"suite","id":"\#(name)","name":"Things","sourceLocation":\#(place)}}"#
        }
        static func test(_ identifier: String, _ name: String) -> String {
            #"{"kind":"test","payload":{"kind":"function","id":"\#(identifier)","name":"f()","displayName":"\#(name)","#
                + #""sourceLocation":\#(place)}}"#
        }
        static func event(_ kind: String, _ test: String?, _ symbol: String? = nil, _ text: String = "") -> String {
            let messages = symbol.map { #"[{"symbol":"\#($0)","text":"\#(text)"}]"# } ?? "[]"
            return #"{"kind":"event","payload":{"kind":"\#(kind)","messages":\#(messages),"instant":{"absolute":1.5},"#
                + #""issue":{"isKnown":false,"sourceLocation":\#(place)}\#(test.map { #","testID":"\#($0)""# } ?? "")}}"#
        }
    }

    private let suite = "ThingTests.Things"
    private let tests = ["ThingTests.Things/a()/Things.swift:8:6", "ThingTests.Things/b()/Things.swift:9:6"]

    private var begun: [String] {
        [
            Event.suite(suite), Event.test(tests[0], "opens"), Event.test(tests[1], "closes"),
            Event.event("testStarted", suite, "default", "Suite started"),
            Event.event("testStarted", tests[0], "default", "Test started"),
            Event.event("testStarted", tests[1], "default", "Test started"),
            Event.event("testEnded", tests[0], "pass", "Test passed"),
        ]
    }
    private var passed: [String] {
        begun + [
            Event.event("testEnded", tests[1], "pass", "Test passed"),
            Event.event("testEnded", suite, "pass", "Suite passed"),
            Event.event("runEnded", nil, "pass", "Test run with 2 tests in 1 suite passed"),
        ]
    }
    private var failed: [String] {
        begun + [
            Event.event("issueRecorded", tests[1], "fail", "Expectation failed: 1 == 2"),
            Event.event("issueRecorded", tests[1], "fail", "Expectation failed: 3 == 4"),
            Event.event("testEnded", tests[1], "fail", "Test failed"),
            Event.event("testEnded", suite, "fail", "Suite failed"),
            Event.event("runEnded", nil, "fail", "Test run with 2 tests in 1 suite failed with 2 issues"),
        ]
    }

    private let files: FreshDirectory

    /// Makes a package with only the script and stand-ins for the programs that it runs.
    init() throws {
        files = try FreshDirectory()
        let own = ProjectFiles.url("scripts")
        try files.makeDirectory("scripts")
        try files.makeDirectory("bin")
        try files.makeDirectory("tmp")
        for (name, mode) in [("test", 0o700), ("checks.py", 0o600), ("sandbox.sh", 0o600)] {
            try files.write(
                String(contentsOf: own.appending(path: name), encoding: .utf8), to: "scripts/\(name)", mode: mode)
        }
        for name in try FileManager.default.contentsOfDirectory(atPath: own.path)
        where !["test", "checks.py", "sandbox.sh", "soak", "soaks"].contains(name) {
            try files.write("#!/bin/sh\necho \(name) is content\n", to: "scripts/\(name)", mode: 0o700)
        }
        try files.write(
            """
            #!/bin/sh
            echo "figures of $1"
            [ "$1" != full-disk ] || echo "full-disk: skipped: no small file system here"
            [ "$1" != "${BROKEN:-}" ] || { echo "WRONG  $1 lost one"; exit 1; }

            """, to: "scripts/soak", mode: 0o700)
        try files.write(
            """
            #!/bin/bash
            echo "swift $*" >>"$PLACE/called"
            [ "$1" = test ] || exit "${BUILD:-0}"
            echo "what the tests wrote"
            while [ "$1" != --event-stream-output-path ]; do shift; done
            cat "$PLACE/events" >>"$2"
            eval "${ENDING:-exit 0}"

            """, to: "bin/swift", mode: 0o700)
    }

    private func run(
        _ arguments: [String] = ["--filter", "Things"], events: [String], _ environment: [String: String] = [:]
    ) async throws -> (status: Int32, lines: [String], log: String?) {
        try files.write(events.map { $0 + "\n" }.joined(), to: "events")
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        let surroundings = ["PATH": "\(files.path("bin")):\(path)", "PLACE": files.path, "TMPDIR": files.path("tmp")]
        let result = try await Program.run(
            files.path("scripts/test"), arguments, environment: surroundings.merging(environment) { $1 })
        #expect(result.error == "")
        let left = try FileManager.default.contentsOfDirectory(atPath: files.path("tmp"))
        #expect(left.count <= 1)
        let log = try left.first.map { try String(contentsOfFile: files.path("tmp/\($0)"), encoding: .utf8) }
        if let name = left.first {
            #expect(result.output.contains("all that programs wrote: \(files.path("tmp/\(name)"))\n"))
        }
        return (result.status, result.output.split(separator: "\n").map(String.init), log)
    }

    @Test("prints one line for a passing suite and the count at the end, and leaves no files")
    func passes() async throws {
        let said = try await run(events: passed)
        #expect(said.status == 0)
        #expect(said.lines.last == "2 passed, 0 failed")
        #expect(said.lines.filter { $0.hasPrefix("ok    ThingTests: Things: 2 passed") }.count == 1)
        #expect(said.lines.contains("Swift Testing: Test run with 2 tests in 1 suite passed"))
        #expect(!said.lines.contains { $0.contains("what the tests wrote") || $0.contains("opens") })
        #expect(said.log == nil)
    }

    @Test("runs and counts every check and soak once without arguments, and names skipped tests")
    func allChecks() async throws {
        let said = try await run([], events: passed)
        #expect(said.status == 0, "\(said.lines)")
        let checks = said.lines.filter { $0.hasPrefix("run   scripts/") }
        #expect(Set(checks).count == checks.count)
        for check in [
            "check-documents", "check-openapi", "test-readme", "soak kill", "soak full-disk", "soak differential",
            "bench --short",
        ] {
            #expect(checks.contains { $0.hasPrefix("run   scripts/\(check)") })
        }
        // The passed checks are all except the skipped one. Four runs of two tests add eight.
        #expect(said.lines.last == "\(checks.count - 1 + 8) passed, 0 failed, 1 skipped")
        #expect(said.lines.contains("skip  full-disk: skipped: no small file system here"))
        #expect(!said.lines.contains { $0.contains("figures of") })
        let called = try String(contentsOfFile: files.path("called"), encoding: .utf8).split(separator: "\n")
        #expect(called.filter { $0.hasPrefix("swift test ") }.count == 4)
    }

    @Test("shows a failing test's messages with file and line, and names the test again at the end")
    func failure() async throws {
        let said = try await run(events: failed, ["ENDING": "exit 1"])
        #expect(said.status == 1)
        #expect(said.lines.last == "1 passed, 1 failed")
        #expect(said.lines.contains { $0.hasPrefix("FAIL  ThingTests: closes (ThingTests/Things.swift:7)") })
        #expect(said.lines.contains("      | ThingTests/Things.swift:7: Expectation failed: 1 == 2"))
        #expect(said.lines.contains("      | ThingTests/Things.swift:7: Expectation failed: 3 == 4"))
        #expect(said.lines.contains("FAILED: ThingTests: closes (ThingTests/Things.swift:7)"))
        #expect(said.log?.contains("what the tests wrote\n") == true)
    }

    @Test(
        "counts tests that a signal ends as failed, and names the test that was running",
        arguments: [
            ("kill -SEGV $$", "ended by SIGSEGV"),
            ("echo 'error: Process ThingTests exited with unexpected signal code 11'; exit 1", "signal code 11"),
        ])
    func crash(ending: String, shown: String) async throws {
        let said = try await run(events: begun, ["ENDING": ending])
        #expect(said.status == 1)
        #expect(said.lines.last == "1 passed, 1 failed")
        #expect(said.lines.contains("      | was running: ThingTests: closes"))
        #expect(said.lines.contains { $0.contains(shown) })
        #expect(said.log != nil)
    }

    @Test("fails a run without tests or with only skipped tests")
    func noTests() async throws {
        let none = try await run(events: [
            Event.event("runEnded", nil, "pass", "Test run with 0 tests in 0 suites passed")
        ])
        #expect(none.status == 1)
        #expect(none.lines.last == "0 passed, 1 failed")
        try FileManager.default.removeItem(atPath: files.path("tmp"))
        try files.makeDirectory("tmp")
        let skipped = try await run(
            events: [
                Event.suite(suite), Event.test(tests[0], "opens"),
                Event.event("testSkipped", tests[0], "skip", "Test opens skipped: not here"),
                Event.event("runEnded", nil, "pass", "Test run with 1 test in 1 suite passed"),
            ])
        #expect(skipped.status == 1)
        #expect(skipped.lines.last == "0 passed, 1 failed, 1 skipped")
        #expect(skipped.lines.contains("skip  ThingTests: Test opens skipped: not here"))
    }

    @Test("fails if the exit status and the events contradict each other")
    func contradiction() async throws {
        let said = try await run(events: passed, ["ENDING": "exit 3"])
        #expect(said.status == 1)
        #expect(said.lines.last == "2 passed, 1 failed")
        try FileManager.default.removeItem(atPath: files.path("tmp"))
        try files.makeDirectory("tmp")
        let content = try await run(events: failed, ["ENDING": "exit 0"])
        #expect(content.status == 1)
    }

    @Test("shows the whole output of a failing soak, and runs the other soaks")
    func soak() async throws {
        let said = try await run([], events: passed, ["BROKEN": "kill"])
        #expect(said.status == 1)
        let checks = said.lines.filter { $0.hasPrefix("run   scripts/") }
        #expect(said.lines.last == "\(checks.count - 2 + 8) passed, 1 failed, 1 skipped")
        #expect(said.lines.filter { $0.contains("figures of") } == ["      | figures of kill"])
        #expect(said.lines.contains("      | WRONG  kill lost one"))
    }

    @Test("runs no tests if the build fails")
    func failedBuild() async throws {
        let said = try await run([], events: passed, ["BUILD": "1"])
        #expect(said.status == 1)
        #expect(said.lines.last == "0 passed, 1 failed")
        #expect(try String(contentsOfFile: files.path("called"), encoding: .utf8) == "swift build --build-tests\n")
    }
}
