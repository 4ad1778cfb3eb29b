import Foundation
import TestSupport
import Testing

@testable import Daemon

@Suite("The command that prints a token's own uses")
struct UseLogProgramTests {
    private func run(
        _ script: String, timeout: Duration = .seconds(60), _ take: ([UInt8]) throws -> Void = { _ in }
    ) throws {
        let program = UseLogProgram(
            path: "/bin/sh", arguments: ["-c", script], timeout: timeout, environment: ["VENDOR": "configured"])
        try UseLogRun(program, variables: ["PAYTOKEND_TOKEN": "primary"]).read(take)
    }

    @Test("What it prints comes whole, and its environment and descriptors are what it is given")
    func prints() throws {
        var text = ""
        try run("echo $PAYTOKEND_TOKEN $VENDOR $HOME.; pwd; cat; exec ls /proc/self/fd") {
            text += String(decoding: $0, as: UTF8.self)
        }
        let lines = text.split(separator: "\n").map(String.init)
        #expect(lines.prefix(2) == ["primary configured .", "/"])
        // Standard input, output and error, and the directory that ls reads.
        #expect(lines.dropFirst(2) == ["0", "1", "2", "3"])
        var count = 0
        try run("head -c 5000000 /dev/zero") { count += $0.count }
        #expect(count == 5_000_000)
    }

    @Test("It fails with its status and the first line that it said, and is killed when its time is over")
    func fails() throws {
        #expect(throws: UseLogRun.Failure.ended(.status(7), said: "no licence")) {
            try run("echo no licence >&2; echo more >&2; exit 7")
        }
        #expect(throws: UseLogRun.Failure.timedOut(.milliseconds(200))) {
            try run("exec sleep 600", timeout: .milliseconds(200))
        }
        // Nor is what it has started waited for.
        #expect(throws: UseLogRun.Failure.timedOut(.milliseconds(200))) {
            try run("sleep 600; true", timeout: .milliseconds(200))
        }
        // However much it says, nobody waits for that.
        #expect(throws: UseLogRun.Failure.self) { try run("head -c 3000000 /dev/zero >&2; exit 1") }
        struct Left: Error {}
        #expect(throws: Left.self) { try run("yes") { _ in throw Left() } }
    }

    @Test("A program that others could change is not run")
    func objections() throws {
        let directory = try FreshDirectory()
        let path = try directory.write("#!/bin/sh\n", to: "uses")
        #expect(UseLogProgram.objection(to: path)?.contains("no program") == true)
        func mode(_ mode: Int, _ path: String) throws {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        }
        try mode(0o755, path)
        #expect(UseLogProgram.objection(to: path) == nil)
        try mode(0o775, path)
        #expect(UseLogProgram.objection(to: path)?.contains("written by others") == true)
        // Nor through a name that others cannot change.
        let own = try FreshDirectory()
        try FileManager.default.createSymbolicLink(atPath: own.path("uses"), withDestinationPath: path)
        #expect(UseLogProgram.objection(to: own.path("uses"))?.contains("written by others") == true)
        try mode(0o755, path)
        #expect(UseLogProgram.objection(to: own.path("uses")) == nil)
        try mode(0o777, directory.path)
        #expect(UseLogProgram.objection(to: path)?.contains("written by others") == true)
        #expect(UseLogProgram.objection(to: directory.path("none")) != nil)
        #expect(UseLogProgram.objection(to: directory.path) != nil)
    }
}
