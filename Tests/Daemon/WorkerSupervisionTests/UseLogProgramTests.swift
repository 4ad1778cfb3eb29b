import Foundation
import TestSupport
import Testing

@testable import WorkerSupervision

@Suite("The command that prints an HSM token's own uses")
struct UseLogProgramTests {
    private func run(
        _ script: String, timeout: Duration = .seconds(60), _ take: ([UInt8]) throws -> Void = { _ in }
    ) throws {
        try started(script, timeout: timeout).read(take)
    }

    private func started(_ script: String, timeout: Duration = .seconds(60)) throws -> UseLogRun {
        let program = UseLogProgram(
            path: "/bin/sh", arguments: ["-c", script], timeout: timeout, environment: ["VENDOR": "configured"])
        return try UseLogRun(
            program, TrustedExecutable(path: program.path), variables: ["PAYTOKEND_TOKEN": "primary"])
    }

    /// Returns true if the process exists, even as a zombie.
    private func exists(_ process: Int32) -> Bool { FileManager.default.fileExists(atPath: "/proc/\(process)") }

    @Test("reads the whole output, and gives the program exactly the configured environment and descriptors")
    func readsWholeOutput() throws {
        var text = ""
        try run("echo $PAYTOKEND_TOKEN $VENDOR $HOME.; pwd; cat; exec ls /proc/self/fd") {
            text += String(decoding: $0, as: UTF8.self)
        }
        let lines = text.split(separator: "\n").map(String.init)
        #expect(lines.prefix(2) == ["primary configured .", "/"])
        // The descriptors are standard input, output and error, the script's file, and the directory that ls reads.
        #expect(lines.dropFirst(2) == ["0", "1", "2", "3", "4"])
        var count = 0
        try run("head -c 5000000 /dev/zero") { count += $0.count }
        #expect(count == 5_000_000)
    }

    @Test("reports the program's status and its first line on standard error, and kills it at its time limit")
    func reportsFailure() throws {
        #expect(throws: UseLogRun.Failure.ended(.status(7), said: "no licence")) {
            try run("echo no licence >&2; echo more >&2; exit 7")
        }
        #expect(throws: UseLogRun.Failure.timedOut(.milliseconds(200))) {
            try run("exec sleep 600", timeout: .milliseconds(200))
        }
        // The time limit also applies while a child process of the program runs.
        #expect(throws: UseLogRun.Failure.timedOut(.milliseconds(200))) {
            try run("sleep 600; true", timeout: .milliseconds(200))
        }
        // A large output on standard error does not block the program.
        #expect(throws: UseLogRun.Failure.self) { try run("head -c 3000000 /dev/zero >&2; exit 1") }
        struct Left: Error {}
        #expect(throws: Left.self) { try run("yes") { _ in throw Left() } }
    }

    @Test("ends and reaps a stopped program with its child processes, and returns its lease")
    func stoppedProgram() async throws {
        final class Lease: Sendable {}
        var lease: Lease? = Lease()
        weak let kept = lease
        // The program prints its own and its child's process identifier. The child keeps the output open.
        let run = try started("sleep 600 & echo $$ $!; exec sleep 600", timeout: .seconds(3600))
        var pieces = run.pieces(keeping: lease).makeAsyncIterator()
        lease = nil
        let first = try #require(try await pieces.next())
        let processes = String(decoding: first, as: UTF8.self).split(whereSeparator: \.isWhitespace).compactMap {
            Int32($0)
        }
        #expect(processes.count == 2 && processes.allSatisfy(exists) && kept != nil)
        run.stop()
        await #expect(throws: UseLogRun.Failure.stopped) { _ = try await pieces.next() }
        #expect(!exists(processes[0]))
        try await wait(for: "the lease to be given back") { kept == nil }
        // The child's parent is gone, so init reaps the child.
        try await wait(for: "what it started to be gone") { !exists(processes[1]) || isZombie(processes[1]) }
    }

    private func isZombie(_ process: Int32) -> Bool {
        (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8))?.contains(") Z ") ?? true
    }

    @Test("blocks the program while the reader reads nothing, and still applies the time limit")
    func slowReader() async throws {
        let run = try started("exec yes", timeout: .milliseconds(500))
        let pieces = run.pieces(keeping: 0)
        var count = 0
        await #expect(throws: UseLogRun.Failure.timedOut(.milliseconds(500))) {
            for try await _ in pieces { count += 1 }
        }
        // The run reads a few pieces of the output in advance. It reads no more until the reader has taken them.
        #expect((1...4).contains(count))
    }

    @Test("reports the end soon even while another process group keeps standard error open")
    func outputKeptOpen() throws {
        #expect(throws: UseLogRun.Failure.ended(.status(3), said: "broken")) {
            try run("echo broken >&2; setsid sleep 20 >&- & exit 3", timeout: .seconds(3600))
        }
    }

    @Test("runs the file that was checked, even if another file replaces it under its name meanwhile")
    func replacedFile() throws {
        let directory = try FreshDirectory()
        let path = try directory.write("#!/bin/sh\necho checked $1\n", to: "uses")
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
        let executable = try TrustedExecutable(path: path)
        try FileManager.default.moveItem(atPath: path, toPath: directory.path("moved"))
        try directory.write("#!/bin/sh\necho replaced\n", to: "uses")
        let program = UseLogProgram(path: path, arguments: ["one"], timeout: .seconds(60), environment: [:])
        var text = ""
        for attempt in 1... {
            do {
                try UseLogRun(program, executable, variables: [:]).read { text += String(decoding: $0, as: UTF8.self) }
                break
            } catch UseLogRun.Failure.notStarted where attempt < 100 {
                // A process that another test forks may have the script open for writing until its exec. The start
                // then fails with ETXTBSY.
                usleep(10_000)
            }
        }
        #expect(text == "checked one\n")
    }

    @Test("refuses a program, or a directory above it, that belongs to another account", .enabled(if: geteuid() == 0))
    func otherOwner() throws {
        let directory = try FreshDirectory()
        let path = try directory.write("#!/bin/sh\n", to: "uses", mode: 0o755)
        #expect(UseLogProgram.objection(to: path) == nil)
        for owned in [path, directory.path] {
            try FileManager.default.setAttributes([.ownerAccountID: 65_534], ofItemAtPath: owned)
            #expect(UseLogProgram.objection(to: path)?.contains("belongs to neither root") == true)
            try FileManager.default.setAttributes([.ownerAccountID: 0], ofItemAtPath: owned)
        }
    }

    @Test("refuses a program that other users could change")
    func unsafeProgramRefused() throws {
        let directory = try FreshDirectory()
        let path = try directory.write("#!/bin/sh\n", to: "uses")
        #expect(UseLogProgram.objection(to: path)?.contains("not an executable program") == true)
        func mode(_ mode: Int, _ path: String) throws {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        }
        try mode(0o755, path)
        #expect(UseLogProgram.objection(to: path) == nil)
        try mode(0o775, path)
        #expect(UseLogProgram.objection(to: path)?.contains("written by others") == true)
        // The program is also refused if its path is a link in a directory that other users cannot change.
        let own = try FreshDirectory()
        try FileManager.default.createSymbolicLink(atPath: own.path("uses"), withDestinationPath: path)
        #expect(UseLogProgram.objection(to: own.path("uses"))?.contains("written by others") == true)
        try mode(0o755, path)
        #expect(UseLogProgram.objection(to: own.path("uses")) == nil)
        // The path leads through a link in the directory `open`. The program is accepted until the mode of `open`
        // becomes 0777, because other users can then replace the link.
        let (open, safe) = (try FreshDirectory(), try FreshDirectory())
        try FileManager.default.createSymbolicLink(atPath: open.path("link"), withDestinationPath: directory.path)
        try FileManager.default.createSymbolicLink(
            atPath: safe.path("way"),
            withDestinationPath: "\(open.path)/../\(URL(filePath: open.path).lastPathComponent)/link")
        #expect(UseLogProgram.objection(to: safe.path("way/uses")) == nil)
        try mode(0o777, open.path)
        #expect(UseLogProgram.objection(to: safe.path("way/uses"))?.contains("written by others") == true)
        try FileManager.default.createSymbolicLink(atPath: safe.path("loop"), withDestinationPath: "loop")
        #expect(UseLogProgram.objection(to: safe.path("loop"))?.contains("not an executable program") == true)
        try mode(0o777, directory.path)
        #expect(UseLogProgram.objection(to: path)?.contains("written by others") == true)
        #expect(UseLogProgram.objection(to: directory.path("none")) != nil)
        #expect(UseLogProgram.objection(to: directory.path) != nil)
    }
}
