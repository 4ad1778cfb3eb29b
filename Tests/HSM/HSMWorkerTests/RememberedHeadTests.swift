import Foundation
import TestSupport
import Testing
import WorkerProtocol

/// The newest checkpoint as a data object in the token, through the real worker.
@Suite struct RememberedHeadTests {
    private func line(_ sequence: Int, _ node: String = "backend-1") -> String {
        #"{"checkpoint":{"node":"\#(node)","sequence":\#(sequence)},"signature":"AA=="}"#
    }

    private func dataObjects(_ hsmToken: TokenDirectory, loggedIn: Bool = true) async throws -> [String] {
        let listing = try await hsmToken.tool(["--list-objects", "--type", "data"], loggedIn: loggedIn).output
        return listing.components(separatedBy: "Data object ").dropFirst().map { String($0) }
    }

    @Test("a node's newest line takes the place of the one before; other nodes' stay")
    func replaced() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.heads().isEmpty)
        for (sequence, node) in [(1, "backend-1"), (5, "backend-2"), (2, "backend-1"), (3, "backend-1")] {
            #expect(try await worker.remember(line(sequence, node), node: node) == .done)
        }
        let expected = [line(3), line(5, "backend-2")].sorted()
        #expect(try await worker.heads().sorted() == expected)
        #expect(try await WorkerUnderTest.serving(hsmToken).heads().sorted() == expected)
        #expect(try await dataObjects(hsmToken).count == 2)
    }

    @Test("a node's name that begins like another's is another node")
    func similarNames() async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        for node in ["backend-1", "backend-10", "backend"] {
            #expect(try await worker.remember(line(1, node), node: node) == .done)
        }
        #expect(try await worker.heads().count == 3)
    }

    @Test("the same line again changes nothing")
    func repeated() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        for _ in 0..<3 { #expect(try await worker.remember(line(4), node: "backend-1") == .done) }
        #expect(try await worker.heads() == [line(4)])
        #expect(try await dataObjects(hsmToken).count == 1)
    }

    @Test("the longest line comes back whole")
    func longest() async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        let line = String(repeating: "x", count: 4096)
        #expect(try await worker.remember(line, node: String(repeating: "n", count: 64)) == .done)
        #expect(try await worker.heads() == [line])
    }

    @Test("a line without a node, or nothing to remember, is refused")
    func empty() async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        #expect(try await worker.remember(line(1), node: "").failureKind == .auditRefused)
        #expect(try await worker.remember("", node: "backend-1").failureKind == .auditRefused)
        #expect(try await worker.heads().isEmpty)
    }

    @Test("who has not logged in does not see it")
    func privateObject() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.remember(line(1), node: "backend-1") == .done)
        #expect(try await dataObjects(hsmToken, loggedIn: false).isEmpty)
        let seen = try await dataObjects(hsmToken)
        #expect(seen.count == 1)
        #expect(seen.first?.contains("'paytokend audit head backend-1'") == true, "\(seen)")
        #expect(seen.first?.contains("'paytokend'") == true)
    }

    @Test("other applications' data objects are neither read nor destroyed")
    func foreign() async throws {
        let hsmToken = try await TokenDirectory()
        let file = try hsmToken.directory.write("somebody else's", to: "foreign")
        for (application, label) in [
            ("other", "paytokend audit head backend-1"), ("paytokend", "something else"), ("paytokend", "paytokend"),
        ] {
            let written = try await hsmToken.tool([
                "--write-object", file, "--type", "data", "--private", "--application-label", application, "--label",
                label,
            ])
            try #require(written.status == 0, "\(written)")
        }
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.heads().isEmpty)
        for sequence in 1...3 { #expect(try await worker.remember(line(sequence), node: "backend-1") == .done) }
        #expect(try await worker.heads() == [line(3)])
        #expect(try await dataObjects(hsmToken).count == 4)
    }

    @Test("of several that an interruption left, all are read, and the next one ends them")
    func several() async throws {
        let hsmToken = try await TokenDirectory()
        for sequence in 1...3 {
            let file = try hsmToken.directory.write(line(sequence), to: "head-\(sequence)")
            let written = try await hsmToken.tool([
                "--write-object", file, "--type", "data", "--private", "--application-label", "paytokend", "--label",
                "paytokend audit head backend-1",
            ])
            try #require(written.status == 0, "\(written)")
        }
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.heads().sorted() == (1...3).map { line($0) })
        // The one that is there already stays.
        #expect(try await worker.remember(line(2), node: "backend-1") == .done)
        #expect(try await worker.heads() == [line(2)])
        #expect(try await dataObjects(hsmToken).count == 1)
    }

    @Test("the heads of a hundred nodes that share a token are all read")
    func manyNodes() async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        for number in 1...100 {
            #expect(try await worker.remember(line(1, "n\(number)"), node: "n\(number)") == .done)
        }
        #expect(try await worker.heads().count == 100)
    }

    @Test("killed at any moment, the token remembers the last line that was answered or a later one", arguments: 0..<12)
    func killed(_ round: Int) async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        // One session, so that the lines are kept in the order in which they are sent.
        try await worker.open(hsmToken, sessions: 1)
        #expect(try await worker.remember(line(1), node: "backend-1") == .done)
        for sequence in 2...300 {
            let head = HeadToRemember(node: "backend-1", line: Array(line(sequence).utf8))
            worker.send(try WorkerRequest.rememberHead(head).encoded(identifier: UInt64(1000 + sequence)))
        }
        for _ in 0..<(1 + round * 3) { _ = try await worker.receive() }
        try await Task.sleep(for: .microseconds(round * 137))
        kill(worker.processIdentifier, SIGKILL)
        var answered = 2 + round * 3
        while let received = try await worker.receive() {
            #expect(received.answer == .done)
            answered = Int(received.identifier) - 1000
        }
        _ = try await worker.end()
        let heads = try await WorkerUnderTest.serving(hsmToken).heads()
        #expect((1...2).contains(heads.count), "\(heads)")
        let remembered = (answered...300).map { line($0) }
        #expect(heads.contains { remembered.contains($0) }, "\(answered) was answered: \(heads)")
    }

    @Test(
        "a read-only token is opened and serves; what the record would write there is refused with the reason",
        .enabled(if: NSSTokenDirectory.isInstalled, "needs NSS's softoken and certutil"))
    func readOnly() async throws {
        let hsmToken = try await NSSTokenDirectory(flags: "readOnly")
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        #expect(description.tierECv1 != nil)
        let answer = try await worker.call(.createAuditKey(identifier: Array(0..<16)))
        #expect(answer.failureKind == .auditRefused)
        #expect(answer.failureMessage.contains("read-only"), "\(answer)")
        #expect(try await worker.auditKeys().isEmpty)
        #expect(try await worker.call(.probe) == .done)
    }

    @Test(
        "a token that takes no data objects says so, and goes on working otherwise",
        .enabled(if: NSSTokenDirectory.isInstalled, "needs NSS's softoken and certutil"))
    func noDataObjects() async throws {
        let worker = try await WorkerUnderTest.serving(try await NSSTokenDirectory())
        let answer = try await worker.remember(line(1), node: "backend-1")
        #expect(answer.failureKind == .auditRefused)
        #expect(answer.failureMessage.contains("C_CreateObject"), "\(answer)")
        #expect(try await worker.heads().isEmpty)
        #expect(try await worker.call(.probe) == .done)
    }
}
