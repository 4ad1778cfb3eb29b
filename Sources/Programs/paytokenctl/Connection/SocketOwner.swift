import AccessControl
import CommandOutput
import DaemonAPI
import Foundation
import Glibc
import NIOCore

/// The accounts whose process may listen on a socket: root, the account of this program, and the socket's owner, unless everyone can
/// put a socket into its directory.
struct SocketOwner {
    private let path: String
    /// nil: the socket is in a directory that every account can write, or cannot be examined.
    private let uid: UInt32?

    init(of path: String) {
        self.path = path
        // A link's own owner and directory do not matter.
        let file = URL(filePath: path).resolvingSymlinksInPath()
        let attributes = { (url: URL) in try? FileManager.default.attributesOfItem(atPath: url.path) }
        let mode = attributes(file.deletingLastPathComponent())?[.posixPermissions] as? Int ?? 0o777
        let owner = attributes(file)?[.ownerAccountID] as? Int
        uid = mode & 0o002 == 0 ? owner.flatMap { UInt32(exactly: $0) } : nil
    }

    func admits(_ peer: UInt32) -> Bool { peer == 0 || peer == geteuid() || peer == uid }

    /// - Throws: `UnixSocketClientError.untrustedPeer`, or the reason why the kernel does not say who listens.
    func check(_ connection: any Channel) throws {
        let peer = try connection.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
            try PeerCredentials(connectedSocket: $0).uid
        }
        guard let peer else { throw ChannelError.operationUnsupported }
        guard admits(peer) else { throw UnixSocketClientError.untrustedPeer(path: path, uid: peer) }
    }
}

extension DaemonConnection {
    /// The same daemon, which must be the socket's own (``SocketOwner``): for a request whose answer a private key is trusted to.
    var trusted: DaemonConnection {
        var trusted = self
        trusted.client.checkPeer = { [path = client.path] in try SocketOwner(of: path).check($0) }
        return trusted
    }
}
