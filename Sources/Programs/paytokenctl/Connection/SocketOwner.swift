import AccessControl
import CommandOutput
import DaemonAPI
import Foundation
import Glibc
import NIOCore

/// The accounts whose process may listen on a socket: root, this program's account, and the socket's owner. The owner
/// is not trusted if every account can create a socket in its directory.
struct SocketOwner {
    private let path: String
    /// Nil if every account can write to the socket's directory, or if it cannot be examined.
    private let uid: UInt32?

    init(of path: String) {
        self.path = path
        // The owner and directory of a symbolic link are irrelevant.
        let file = URL(filePath: path).resolvingSymlinksInPath()
        let attributes = { (url: URL) in try? FileManager.default.attributesOfItem(atPath: url.path) }
        let mode = attributes(file.deletingLastPathComponent())?[.posixPermissions] as? Int ?? 0o777
        let owner = attributes(file)?[.ownerAccountID] as? Int
        uid = mode & 0o002 == 0 ? owner.flatMap { UInt32(exactly: $0) } : nil
    }

    func admits(_ peer: UInt32) -> Bool { peer == 0 || peer == geteuid() || peer == uid }

    /// - Throws: `UnixSocketClientError.untrustedPeer`, or the reason why the kernel does not report the listener.
    func check(_ connection: any Channel) throws {
        let peer = try connection.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
            try PeerCredentials(connectedSocket: $0).uid
        }
        guard let peer else { throw ChannelError.operationUnsupported }
        guard admits(peer) else { throw UnixSocketClientError.untrustedPeer(path: path, uid: peer) }
    }
}

extension DaemonConnection {
    /// A connection to the same daemon that also checks the account of the listening process (``SocketOwner``). It is
    /// used for a request whose response decides who can read a private key.
    var trusted: DaemonConnection {
        var trusted = self
        trusted.client.checkPeer = { [path = client.path] in try SocketOwner(of: path).check($0) }
        return trusted
    }
}
