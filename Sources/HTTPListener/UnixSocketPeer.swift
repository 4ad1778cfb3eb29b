import CLinux
import HostSystem
package import NIOCore

/// Who connected to a Unix socket, as the kernel fixed it at connect(2).
package enum UnixSocketPeer {
    /// - Throws: where the channel is no Unix socket, or the kernel does not say.
    package static func uid(of channel: any Channel) throws -> UInt32 {
        let uid = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
            descriptor in
            var peer = paytokend_peer()
            let result = unsafe paytokend_peer_credentials(descriptor, &peer)
            guard result == 0 else { throw SystemError(call: "getsockopt(SO_PEERCRED)", errno: result) }
            return peer.uid
        }
        guard let uid else { throw ChannelError.operationUnsupported }
        return uid
    }
}
