import Foundation
import TestSupport
import Testing

@testable import Gateway

/// Tests of clients that resume TLS sessions.
extension TLSTests {
    @Test("attributes a resumed session to the client of its handshake", arguments: ["-tls1_2", "-tls1_3"])
    func resumed(version: String) async throws {
        try await gateway().use { gateway in
            for (name, client) in [("client", "issued"), ("other", "pinned")] {
                let session = directory.path("\(name).session")
                let whole = try await request(gateway, version, as: name, ["-sess_out", session])
                #expect(whole.output.contains("\nNew, ") && whole.output.contains("\(client) 0"), "\(whole)")
                let resumed = try await request(gateway, version, as: name, ["-sess_in", session])
                #expect(resumed.output.contains("\nReused, ") && resumed.output.contains("\(client) 0"), "\(resumed)")
            }
            // The client's certificate comes from an unknown authority, so neither a handshake nor a resumed session
            // identifies the client.
            let outsider = try TestCertificates(in: FreshDirectory())
            try certificates.write(outsider.client, to: "outsider")
            let session = directory.path("outsider.session")
            for arguments in [["-sess_out", session], ["-sess_in", session]] {
                let answer = try await request(gateway, version, as: "outsider", arguments)
                #expect(answer.output.contains("HTTP/1.1 401"), "\(answer)")
            }
        }
    }

    @Test(
        "requires a full handshake of a client whose session outlives its cached certificate",
        arguments: ["-tls1_2", "-tls1_3"])
    func outlived(version: String) async throws {
        try await gateway().use { gateway in
            let session = directory.path("session")
            let first = try await request(gateway, version, as: "client", ["-sess_out", session])
            #expect(first.output.contains("issued 0"), "\(first)")
            let tls = try #require(gateway.assembly.tls)
            tls.current.verified.remember(try certificates.client.der, until: Date(timeIntervalSinceNow: -1))
            let renewing = ["-sess_in", session, "-sess_out", session]
            let refused = try await request(gateway, version, as: "client", renewing)
            #expect(refused.output.contains("\nReused, ") && refused.output.contains("HTTP/1.1 401"), "\(refused)")
            #expect(refused.output.contains("resumed TLS session; connect again"), "\(refused)")
            let whole = try await request(gateway, version, as: "client", renewing)
            #expect(whole.output.contains("\nNew, ") && whole.output.contains("issued 0"), "\(whole)")
            let resumed = try await request(gateway, version, as: "client", renewing)
            #expect(resumed.output.contains("\nReused, ") && resumed.output.contains("issued 0"), "\(resumed)")
        }
    }

    @Test("ends sessions at most once a minute, and never one of other settings")
    func endOfSessions() async throws {
        try await gateway().use { gateway in
            let (tls, now) = (try #require(gateway.assembly.tls), ContinuousClock.now)
            let first = tls.current
            tls.endSessions(of: first, now: now)
            let second = tls.current
            #expect(second.context !== first.context && second.generation == first.generation)
            tls.endSessions(of: first, now: now + TLSTermination.sessionEndInterval)
            tls.endSessions(of: second, now: now + TLSTermination.sessionEndInterval - .milliseconds(1))
            #expect(tls.current.context === second.context)
            tls.endSessions(of: second, now: now + TLSTermination.sessionEndInterval)
            #expect(tls.current.context !== second.context)
        }
    }

    @Test(
        "identifies no client by an earlier session after a reload with another authority",
        arguments: ["-tls1_2", "-tls1_3"])
    func resumedAfterReload(version: String) async throws {
        try await gateway().use { gateway in
            let session = directory.path("session")
            let before = try await request(gateway, version, as: "client", ["-sess_out", session])
            #expect(before.output.contains("issued 0"), "\(before)")
            let outsider = try TestCertificates(in: FreshDirectory())
            try directory.write(
                String(contentsOfFile: outsider.directory.path("ca.pem"), encoding: .utf8), to: "ca.pem")
            await gateway.reload()
            let after = try await request(gateway, version, as: "client", ["-sess_in", session])
            #expect(after.output.contains("HTTP/1.1 401"), "\(after)")
        }
    }
}
