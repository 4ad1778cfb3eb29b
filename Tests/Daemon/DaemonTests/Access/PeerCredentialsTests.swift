import AccessControl
import Foundation
import Glibc
import Ledger
import TestSupport
import Testing

@testable import DaemonConfiguration
@testable import HostSystem

@Suite("Peer credentials")
struct PeerCredentialsTests {
    @Test("reads the peer's uid, gid, groups and pid from a connected socket")
    func ownCredentials() throws {
        var pair: [CInt] = [0, 0]
        try #require(unsafe socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &pair) == 0)
        defer { for descriptor in pair { close(descriptor) } }
        let peer = try PeerCredentials(connectedSocket: pair[0])
        var groups = [gid_t](repeating: 0, count: 65_536)
        let count = unsafe getgroups(CInt(groups.count), &groups)
        #expect(peer.uid == geteuid())
        #expect(peer.gid == getegid())
        #expect(peer.pid == getpid())
        #expect(Set(peer.groups) == Set(groups.prefix(Int(count))))
    }

    @Test("has no credentials for a descriptor that is not a connected Unix socket")
    func refusesOthers() {
        let file = unsafe open("/dev/null", O_RDONLY)
        defer { close(file) }
        #expect(throws: SystemError.self) { try PeerCredentials(connectedSocket: file) }
        #expect(throws: SystemError.self) { try PeerCredentials(connectedSocket: -1) }
    }

    @Test(
        "reads all supplementary groups when there are more than the first guess",
        .enabled(if: geteuid() == 0, "only root can take groups"))
    func manyGroups() async throws {
        let directory = try FreshDirectory()
        unsafe _ = chmod(directory.path, 0o755)
        try await ListenerFixture(directory: directory, change: { $0.mode = 0o666 }).use { fixture in
            let groups = (0..<200).map { 20_000 + $0 }
            let answer = try await Program.run(
                Program.installed("setpriv"),
                [
                    "--reuid=12345", "--regid=23456", "--groups=\(groups.map(String.init).joined(separator: ","))",
                    Program.installed("curl"), "--silent", "--max-time", "10", "--unix-socket", fixture.socket,
                    "http://localhost/whoami",
                ])
            #expect(answer.output == "12345 23456 \(groups)")
        }
    }

    @Test("makes a person of the uid and a set login uid; an unreadable login uid makes the person unknown")
    func person() {
        #expect(
            PeerCredentials(uid: 7, gid: 0, loginUID: .set(1_000)).person == PersonIdentities(uid: 7, loginUID: 1_000))
        #expect(PeerCredentials(uid: 7, gid: 0, loginUID: .set(7)).person == PersonIdentities(uid: 7))
        #expect(PeerCredentials(uid: 7, gid: 0, loginUID: .unset).person == PersonIdentities(uid: 7))
        #expect(PeerCredentials(uid: 7, gid: 0, loginUID: .unreadable).person == nil)
        #expect(PeerCredentials(uid: 0, gid: 0, loginUID: .unreadable).person == nil)
    }
}
