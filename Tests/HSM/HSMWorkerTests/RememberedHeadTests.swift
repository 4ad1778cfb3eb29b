import Foundation
import TestSupport
import Testing
import WorkerProtocol

/// The newest audit checkpoint, which the real worker process stores as a data object in the HSM token.
@Suite struct RememberedHeadTests {
    private func line(_ sequence: Int, _ node: String = "backend-1") -> String {
        #"{"checkpoint":{"node":"\#(node)","sequence":\#(sequence)},"signature":"AA=="}"#
    }

    private func dataObjects(_ hsmToken: TokenDirectory, loggedIn: Bool = true) async throws -> [String] {
        let listing = try await hsmToken.tool(["--list-objects", "--type", "data"], loggedIn: loggedIn).output
        return listing.components(separatedBy: "Data object ").dropFirst().map { String($0) }
    }

    @Test("replaces a node's previous line with the newest one, and keeps the lines of other nodes")
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

    @Test("distinguishes two nodes if one's name begins with the other's")
    func similarNames() async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        for node in ["backend-1", "backend-10", "backend"] {
            #expect(try await worker.remember(line(1, node), node: node) == .done)
        }
        #expect(try await worker.heads().count == 3)
    }

    @Test("keeps a single object for a repeated line")
    func repeated() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try await WorkerUnderTest.serving(hsmToken)
        for _ in 0..<3 { #expect(try await worker.remember(line(4), node: "backend-1") == .done) }
        #expect(try await worker.heads() == [line(4)])
        #expect(try await dataObjects(hsmToken).count == 1)
    }

    @Test("returns a line of the maximum length completely")
    func longest() async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        let line = String(repeating: "x", count: 4096)
        #expect(try await worker.remember(line, node: String(repeating: "n", count: 64)) == .done)
        #expect(try await worker.heads() == [line])
    }

    @Test("refuses a line without a node, or an empty line")
    func empty() async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        #expect(try await worker.remember(line(1), node: "").failureKind == .auditRefused)
        #expect(try await worker.remember("", node: "backend-1").failureKind == .auditRefused)
        #expect(try await worker.heads().isEmpty)
    }

    @Test("hides the stored line from sessions without a login")
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

    @Test("does not read or destroy data objects of other applications")
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

    @Test("returns all lines of a node after an interruption, and destroys the older ones at the next write")
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
        // If the line is stored already, the worker keeps that object and destroys the others of the node.
        #expect(try await worker.remember(line(2), node: "backend-1") == .done)
        #expect(try await worker.heads() == [line(2)])
        #expect(try await dataObjects(hsmToken).count == 1)
    }

    @Test("reads the heads of a hundred nodes that share an HSM token")
    func manyNodes() async throws {
        let worker = try await WorkerUnderTest.serving(try await TokenDirectory())
        for number in 1...100 {
            #expect(try await worker.remember(line(1, "n\(number)"), node: "n\(number)") == .done)
        }
        #expect(try await worker.heads().count == 100)
    }

    @Test(
        "keeps the last confirmed line or a later one in the HSM token if the worker is killed at any moment",
        arguments: 0..<12)
    func killed(_ round: Int) async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        // With one session, the worker stores the lines in the order of the requests.
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
        "serves a read-only HSM token, and refuses to make an audit key in it with the reason",
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
        "reports an HSM token that stores no data objects, and continues to serve other requests",
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
