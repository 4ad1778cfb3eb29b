import CLinux
import Glibc
package import HostSystem

/// The peer of a Unix socket, as the kernel fixed it at connect(2): the only identity there is.
///
/// Neither pid nor path nor a look-up by name at request time takes part: a pid can be reused and a name can change.
/// `pid` and `comm` are informational, for records. `loginUID` gives no rights: it says which person uses an account.
package struct PeerCredentials: Sendable, Hashable {
    package let uid: UInt32
    package let gid: UInt32
    /// The supplementary groups (SO_PEERGROUPS), in the kernel's order; `gid` may or may not be among them.
    package let groups: [UInt32]
    package let pid: Int32
    /// Read while the process that connected was running.
    package let loginUID: LoginUID
    /// The process's own name for itself (/proc/pid/comm), at most 15 bytes: text that the process chose, so not trusted.
    package let comm: String?

    package init(
        uid: UInt32, gid: UInt32, groups: [UInt32] = [], pid: Int32 = 0, loginUID: LoginUID = .unset,
        comm: String? = nil
    ) {
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.pid = pid
        self.loginUID = loginUID
        self.comm = comm
    }

    /// Returns true if `group` is the peer's primary or one of its supplementary groups.
    package func belongs(to group: UInt32) -> Bool {
        gid == group || groups.contains(group)
    }
}

extension PeerCredentials {
    /// Asks the kernel about a connected Unix socket.
    /// - Throws: the errno of the getsockopt(2) that failed. A peer without credentials is not served.
    package init(connectedSocket descriptor: CInt) throws(SystemError) {
        var peer = paytokend_peer()
        let result = unsafe paytokend_peer_credentials(descriptor, &peer)
        guard result == 0 else { throw SystemError(call: "getsockopt(SO_PEERCRED)", errno: result) }
        let groups = try Self.supplementaryGroups(of: descriptor)
        self.init(
            uid: peer.uid, gid: peer.gid, groups: groups, pid: peer.pid,
            loginUID: Self.loginUID(of: descriptor, peer), comm: ProcessName.of(process: peer.pid))
    }

    private static func loginUID(of descriptor: CInt, _ peer: paytokend_peer) -> LoginUID {
        do throws(PeerDescriptor.Failure) {
            return LoginUID(of: try PeerDescriptor(connectedSocket: descriptor, pid: peer.pid))
        } catch {
            switch error {
            case .unsupported: return LoginUID(of: NumberedProcess(pid: peer.pid, uid: peer.uid))
            case .failed: return LoginUID.isKept ? .unreadable : .unset
            }
        }
    }

    private static func supplementaryGroups(of descriptor: CInt) throws(SystemError) -> [UInt32] {
        // Most accounts have a handful of groups; the kernel says how many when that is too few (at most 65,536).
        var capacity: UInt32 = 32
        while true {
            var groups = [UInt32](repeating: 0, count: Int(capacity))
            var count: UInt32 = 0
            let result = unsafe paytokend_peer_groups(descriptor, &groups, capacity, &count)
            if result == 0 {
                groups.removeLast(groups.count - min(Int(count), groups.count))
                return groups
            }
            guard result == ERANGE, count > capacity, count <= 65_536 else {
                throw SystemError(call: "getsockopt(SO_PEERGROUPS)", errno: result)
            }
            capacity = count
        }
    }
}

/// What a process calls itself (proc(5), /proc/pid/comm); it can call itself anything.
enum ProcessName {
    /// nil where the process is gone or may not be looked at, or its name is not UTF-8.
    static func of(process pid: Int32) -> String? {
        ProcessFile.text("comm", of: pid).map { String($0.trimmingTrailingNewline) }
    }
}
