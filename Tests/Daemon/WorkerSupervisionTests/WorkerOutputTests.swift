import HostSystem
import TestSupport
import Testing

@testable import WorkerSupervision

@Suite("Standard error of workers")
struct WorkerOutputTests {
    private typealias Line = WorkerOutput.Line

    @Test("keeps a limited number of lines of each minute, counts the others, and truncates long ones")
    func limitsLines() {
        var lines = WorkerOutput.KeptLines()
        let now = ContinuousClock.now
        #expect(lines.add("be".utf8, at: now).isEmpty)
        #expect(lines.add("gun\n\nsecond\n".utf8, at: now).map(\.text) == ["begun", "second"])
        let most = WorkerOutput.maximumLines
        let flood = String(repeating: "x\n", count: most + 5)
        #expect(lines.add(flood.utf8, at: now).count == most - 2)
        let later = now + WorkerOutput.period
        let long = String(repeating: "y", count: 10_000)
        #expect(
            lines.add((long + "\nz\n").utf8, at: later) == [
                Line(text: String(long.prefix(WorkerOutput.maximumBytes)), dropped: 7), Line(text: "z", dropped: 0),
            ])
        _ = lines.add("unfinished".utf8, at: later)
        #expect(lines.end(at: later)?.text == "unfinished")
        #expect(lines.end(at: later) == nil)
    }

    @Test("passes on what a process wrote before it crashed")
    func outputBeforeCrash() async throws {
        let directory = try FreshDirectory()
        let program = try directory.write(
            "#!/bin/sh\necho first >&2\nprintf last >&2\nkill -SEGV $$\n", to: "worker", mode: 0o700)
        let lines = Shared<[String]>([])
        let (process, socket) = try WorkerProcess.spawn(WorkerExecutable(path: program), environment: [:]) { line, _ in
            lines.change { $0.append(line.text) }
        }
        let end = OwnedDescriptor(socket)
        defer { withExtendedLifetime(end) {} }
        #expect(await process.end() == .signal(11))
        try await wait(for: "both lines") { lines.current == ["first", "last"] }
    }
}
