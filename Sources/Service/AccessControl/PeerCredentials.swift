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

/// The uid under which a person logged in, which su and sudo leave as it is (proc(5), /proc/pid/loginuid).
package enum LoginUID: Sendable, Hashable {
    case set(UInt32)
    /// No person logged in (a service, a cron job), or the kernel keeps no login uids.
    case unset
    /// The process has ended, or may not be looked at: it can have any.
    case unreadable

    /// nil where none is set, and where none could be read.
    package var number: UInt32? {
        if case .set(let uid) = self { uid } else { nil }
    }
}

extension LoginUID {
    /// Reads it, and takes it only if the same process runs before and after the reading. Otherwise its pid may have been
    /// given to another process in between, and the login uid would be that one's.
    ///
    /// - Parameter isKept: whether the kernel keeps login uids.
    init(of process: borrowing some ConnectedProcess & ~Copyable, isKept: Bool = Self.isKept) {
        guard isKept else {
            self = .unset
            return
        }
        guard let before = process.life(), let text = process.loginUID(), process.life() == before,
            let uid = UInt32(text.trimmingTrailingNewline)
        else {
            self = .unreadable
            return
        }
        // 4294967295 says that no person logged in.
        self = uid == UInt32.max ? .unset : .set(uid)
    }

    /// A kernel without CONFIG_AUDIT has no such file, and then this process has none either. Where /proc is not there at
    /// all nothing can be told, and nothing is taken for unset.
    static let isKept = unsafe access("/proc/self/loginuid", F_OK) == 0 || access("/proc/self/stat", F_OK) != 0
}

extension String {
    /// Without the one newline at its end, if there is one.
    var trimmingTrailingNewline: Substring {
        hasSuffix("\n") ? dropLast() : self[...]
    }
}

/// The process that connected. By the time something of it is read under /proc its pid may be another process's.
protocol ConnectedProcess: ~Copyable {
    /// Equal before and after a reading if one running process was read; nil when it has ended.
    func life() -> ProcessLife?
    /// The text of its login uid; nil where it cannot be read.
    func loginUID() -> String?
}

/// What tells a process from others that have had the same pid.
enum ProcessLife: Equatable {
    /// It runs, by a descriptor that can mean no other process.
    case runs
    /// It runs, and started at this time (proc(5), /proc/pid/stat, field 22).
    case startedAt(UInt64)
}

/// The process that a socket's peer was at connect, by a descriptor of the kernel's (SO_PEERPIDFD, Linux 6.5).
struct PeerDescriptor: ConnectedProcess, ~Copyable {
    enum Failure: Error {
        /// The kernel is older.
        case unsupported
        /// The process has been reaped, or there are no descriptors left.
        case failed
    }

    let pid: Int32
    private let descriptor: CInt

    /// - Parameter pid: the peer's, by SO_PEERCRED.
    init(connectedSocket socket: CInt, pid: Int32) throws(Failure) {
        var descriptor: CInt = -1
        let result = unsafe paytokend_peer_pidfd(socket, &descriptor)
        guard result == 0 else { throw result == ENOPROTOOPT ? .unsupported : .failed }
        self.descriptor = descriptor
        self.pid = pid
    }

    deinit { close(descriptor) }

    func life() -> ProcessLife? { paytokend_pidfd_runs(descriptor) == 1 ? .runs : nil }
    func loginUID() -> String? { ProcessFile.loginUID(of: pid) }
}

/// The process that has the peer's number now, before Linux 6.5: by its start and its uid.
///
/// It cannot see that the pid was given, between connect and accept, to another process of the same uid.
struct NumberedProcess: ConnectedProcess {
    let pid: Int32
    /// The peer's effective uid at connect; a process with another one is not it, or not any more.
    let uid: UInt32

    func life() -> ProcessLife? {
        guard pid > 0, let stat = ProcessFile.text("stat", of: pid), let name = stat.lastIndex(of: ")"),
            ProcessFile.effectiveUID(of: pid) == uid
        else { return nil }
        // After the name in parentheses, which can hold anything: the state is field 0, the start time field 19 (the 3rd
        // and the 22nd of proc(5)).
        let fields = stat[stat.index(after: name)...].split(separator: " ")
        guard fields.count > 19, !["Z", "X"].contains(fields[0]), let start = UInt64(fields[19]) else { return nil }
        return .startedAt(start)
    }

    func loginUID() -> String? { ProcessFile.loginUID(of: pid) }
}

/// Files of a process under /proc (proc(5)).
enum ProcessFile {
    /// nil where the process is gone or may not be looked at, or what it says is not UTF-8.
    static func text(_ name: String, of pid: Int32) -> String? {
        // Of a peer in another PID namespace, which this one does not see, the kernel says 0.
        guard pid > 0 else { return nil }
        return try? SmallFile.text(at: "/proc/\(pid)/\(name)", maximumBytes: 4096)
    }

    static func loginUID(of pid: Int32) -> String? { text("loginuid", of: pid) }

    /// The second number of `Uid:` in status.
    fileprivate static func effectiveUID(of pid: Int32) -> UInt32? {
        let line = text("status", of: pid)?.split(separator: "\n").first { $0.hasPrefix("Uid:") }
        return line.flatMap { line in
            let numbers = line.split(separator: "\t").dropFirst()
            return numbers.count == 4 ? UInt32(numbers[numbers.startIndex + 1]) : nil
        }
    }
}
