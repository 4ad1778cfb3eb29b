import AccessControl
import AuditChain
import DaemonAPI
import Foundation
import Ledger
import Refusals
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration
@testable import HTTPListener

@Suite("The audit record over its socket")
struct RecordServiceTests {
    private static let paths = [
        ("GET", "/v1/audit/records", Role.audit), ("GET", "/v1/audit/export", .audit),
        ("GET", "/v1/audit/public-key", .audit), ("GET", "/v1/audit/head", .audit),
        ("POST", "/v1/ledger/backup", .admin),
        ("POST", "/v1/ledger/accept-restore", .admin), ("POST", "/v1/ledger/accept-clock", .admin),
    ]

    private func admits(_ service: RecordServiceFixture, _ method: String, _ path: String) -> Bool {
        let head = RequestHead(method: method, path: path, contentType: "application/json")
        let admission = service.router.admit(
            head, from: DaemonPeer(credentials: PeerCredentials(uid: getuid(), gid: getgid()), socket: .admin))
        switch admission {
        case .accept: return true
        case .refuse(let answer):
            #expect(answer.status == 403)
            return false
        }
    }

    @Test("admits only the role that a path requires", arguments: Role.allCases)
    func rolesOfPaths(role: Role) async throws {
        try await RecordServiceFixture(roles: [role]).use { service in
            for (method, path, needed) in Self.paths {
                #expect(admits(service, method, path) == (role == needed), "\(role) \(path)")
            }
        }
    }

    @Test("refuses a peer that may only decrypt, and shows it no record")
    func refusesDecrypters() async throws {
        try await RecordServiceFixture(roles: [.decrypt]).use { service in
            try await service.record.append(1...3)
            let answer = try await service.get("/v1/audit/records")
            #expect(answer.status == 403)
            #expect(answer.refusal?.refusalCode == .forbidden)
            #expect(!String(decoding: answer.body, as: UTF8.self).contains("checkout"))
        }
    }

    @Test("offers no record path on the payments socket")
    func adminSocketOnly() async throws {
        try await RecordServiceFixture().use { service in
            let payments = UnixSocketClient(path: service.record.directory.path("p.sock"))
            for (method, path, _) in Self.paths {
                let request = ClientRequest(
                    method: method, target: path, body: method == "POST" ? Array("{}".utf8) : nil)
                let answer = try await payments.send(request)
                #expect(answer.status == 404)
            }
        }
    }

    @Test("sends an export in chunks that a client verifies as they arrive")
    func exportInChunks() async throws {
        try await RecordServiceFixture().use { service in
            try await service.record.fill(1500)
            let answer = try await service.client.stream(.get("/v1/audit/export"))
            #expect(answer.header("Transfer-Encoding") == "chunked")
            #expect(answer.header("Content-Type") == "application/jsonl")
            var verifier = ChainVerifier(keys: CheckpointKeys([service.record.seals.publicKey]))
            for try await piece in answer.body { verifier.consume(piece[...]) }
            #expect(verifier.verdict().intact?.records == 1501)
        }
    }

    @Test("percent-decodes a query: the offset of a time keeps its plus sign")
    func percentDecodedQuery() async throws {
        try await RecordServiceFixture().use { service in
            try await service.record.append(1...3)
            let answer = try await service.get(
                "/v1/audit/records?since=2027-01-15T09%3A02%3A00%2B01%3A00&caller=billing")
            #expect(answer.status == 200)
            #expect(String(decoding: answer.body, as: UTF8.self).contains("\"sequence\":2,"))
            let wrong = try await service.get("/v1/audit/records?limit=0")
            #expect(wrong.status == 400)
            #expect(wrong.refusal?.details == "limit")
        }
    }

    /// The number of records of an export that exceeds every socket buffer. The daemon reads them in eight pages.
    private static let many = 4000

    @Test("keeps a few pages and no lock or writer for a reader that stops, and sends the rest when it resumes")
    func stoppedReader() async throws {
        try await RecordServiceFixture().use { service in
            try await service.record.fill(Self.many)
            let client = try await RawConnection(service.socket, reads: false, staysOpen: true)
            try await client.send("GET /v1/audit/export HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            try await wait(for: "the first page") { service.trail.pagesRead > 0 }
            // A daemon that did not wait for the reader would read all pages within this time.
            try await Task.sleep(for: .milliseconds(300))
            #expect(service.trail.pagesRead < 5)
            let head = try await service.record.ledger.head().sequence
            try await service.record.append(head + 1...head + 50)
            try await service.record.seals.seal()
            #expect(service.trail.pagesRead < 5)
            try await client.startReading()
            let text = try await client.everything()
            #expect(text.hasSuffix("\r\n0\r\n\r\n"))
            #expect(service.trail.pagesRead > 5)
        }
    }

    @Test("ends the work of a reader that leaves, and counts it as interrupted")
    func leavingReader() async throws {
        try await RecordServiceFixture().use { service in
            try await service.record.fill(Self.many)
            let client = try await RawConnection(service.socket, reads: false, staysOpen: true)
            try await client.send("GET /v1/audit/export HTTP/1.1\r\nHost: a\r\n\r\n")
            try await wait(for: "the first page") { service.trail.pagesRead > 0 }
            await client.close()
            try await wait(for: "the end of the stream") {
                service.instruments.exposition().contains(
                    #"paytokend_requests_total{endpoint="/v1/audit/export",outcome="interrupted"} 1"#)
            }
            #expect(service.trail.pagesRead < 5)
            let whole = try await service.client.stream(.get("/v1/audit/export"))
            var count = 0
            for try await piece in whole.body { count += piece.filter { $0 == 0x0A }.count }
            // Each of the two exports adds a record and an audit checkpoint.
            #expect(count == Self.many + 2 + 2)
            try await wait(for: "the end of the second stream") {
                service.instruments.exposition().contains(
                    #"paytokend_requests_total{endpoint="/v1/audit/export",outcome="ok"} 1"#)
            }
        }
    }

    @Test("sends nothing more to a follower that loses its role")
    func revokedFollower() async throws {
        try await RecordServiceFixture().use { service in
            try await service.record.append(1...3)
            let answer = try await service.client.stream(.get("/v1/audit/export?follow=true"), idle: nil)
            var pieces = answer.body.makeAsyncIterator()
            #expect(try await pieces.next() != nil)
            service.policies.replace(with: RecordServiceFixture.policies([.decrypt]))
            try await service.record.append(5...6)
            await #expect(throws: UnixSocketClientError.cutShort(path: service.socket)) {
                while let piece = try await pieces.next() {
                    #expect(!String(decoding: piece, as: UTF8.self).contains("\"sequence\":6,"))
                }
            }
            #expect(service.instruments.exposition().contains(#"endpoint="/v1/audit/export",outcome="forbidden"} 1"#))
        }
    }

    @Test("ends a follower's export properly when the daemon stops")
    func stopsFollower() async throws {
        let service = try await RecordServiceFixture()
        try await service.record.append(1...3)
        let answer = try await service.client.stream(.get("/v1/audit/export?follow=true"), idle: nil)
        let reading = Task {
            var export: [UInt8] = []
            for try await piece in answer.body { export += piece }
            return export
        }
        try await wait(for: "the export") { service.trail.pagesRead > 1 }
        await service.listener.shutdown(grace: .seconds(30))
        #expect(service.record.verdict(try await reading.value).intact?.last == 4)
    }

    @Test("breaks the export off when the ledger fails in its middle")
    func brokenLedger() async throws {
        try await RecordServiceFixture().use { service in
            try await service.record.fill(Self.many)
            let answer = try await service.client.stream(.get("/v1/audit/export"))
            var pieces = answer.body.makeAsyncIterator()
            _ = try await pieces.next()
            await service.record.ledger.close()
            await #expect(throws: UnixSocketClientError.cutShort(path: service.socket)) {
                while try await pieces.next() != nil {}
            }
            try await wait(for: "the end of the stream") {
                service.instruments.exposition().contains(
                    #"endpoint="/v1/audit/export",outcome="ledger_unavailable"} 1"#)
            }
        }
    }

    @Test("sends a backup with the announced length and digest")
    func backupWithDigest() async throws {
        try await RecordServiceFixture().use { service in
            try await service.record.append(1...30)
            let answer = try await service.client.stream(.post("/v1/ledger/backup", body: Array("{}".utf8)))
            #expect(answer.header("Content-Type") == "application/octet-stream")
            let length = try #require(answer.header("Content-Length").flatMap { Int($0) })
            var copy: [UInt8] = []
            for try await piece in answer.body { copy += piece }
            #expect(copy.count == length)
            #expect(answer.header("Repr-Digest") == "sha-256=:\(AuditDigest.of(copy).base64):")
        }
    }
}
