import CLinux
import HostSystem
package import NIOCore

/// The peer of a Unix socket, as the kernel fixed it at connect(2).
package enum UnixSocketPeer {
    /// - Throws: where the channel is no Unix socket, or the kernel does not say.
    package static func uid(of channel: any Channel) throws -> UInt32 {
        try read(channel) { descriptor in
            var peer = paytokend_peer()
            let result = unsafe paytokend_peer_credentials(descriptor, &peer)
            guard result == 0 else { throw SystemError(call: "getsockopt(SO_PEERCRED)", errno: result) }
            return peer.uid
        }
    }

    /// What `read` gets from the channel's descriptor.
    /// - Throws: what `read` throws, and where the channel has no descriptor.
    package static func read<Value>(_ channel: any Channel, _ read: (CInt) throws -> Value) throws -> Value {
        let value = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self, read)
        guard let value else { throw ChannelError.operationUnsupported }
        return value
    }
}
