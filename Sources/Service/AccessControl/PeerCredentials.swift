import CLinux
import Glibc
package import HostSystem

// Unsafe: The C functions write only the structure, or as many groups as the array has; a larger count leads to a
// larger array.

/// The peer of a Unix socket, as the kernel recorded it at connect(2). This is the only identity that access rules use.
///
/// A pid, a path or a look-up by name at request time is never used: a pid can be reused and a name can change. `pid` and
/// `comm` are informational, for records. `loginUID` gives no rights: it identifies the person who uses an account.
package struct PeerCredentials: Sendable, Hashable {
    package let uid: UInt32
    package let gid: UInt32
    /// The supplementary groups (SO_PEERGROUPS), in the kernel's order; `gid` may or may not be among them.
    package let groups: [UInt32]
    package let pid: Int32
    /// The login uid, read while the process that connected was running.
    package let loginUID: LoginUID
    /// The name that the process gives itself (/proc/pid/comm), at most 15 bytes; untrusted, since the process chooses it.
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
    /// Reads the credentials of a connected Unix socket's peer from the kernel.
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
        // Most accounts have a handful of groups. If 32 are too few, the kernel returns the number (at most 65,536).
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

/// The name of a process (proc(5), /proc/pid/comm); a process can call itself anything.
enum ProcessName {
    /// Returns the name; nil if the process has ended or must not be read, or if its name is not UTF-8.
    static func of(process pid: Int32) -> String? {
        ProcessFile.text("comm", of: pid).map { String($0.trimmingTrailingNewline) }
    }
}

/// The uid under which a person logged in, which su and sudo leave as it is (proc(5), /proc/pid/loginuid).
package enum LoginUID: Sendable, Hashable {
    case set(UInt32)
    /// No person logged in (a service, a cron job), or the kernel keeps no login uids.
    case unset
    /// The process has ended or must not be read, so it can have any login uid.
    case unreadable

    /// The login uid; nil if none is set or it could not be read.
    package var number: UInt32? {
        if case .set(let uid) = self { uid } else { nil }
    }
}

extension LoginUID {
    /// Reads the login uid, and accepts it only if the same process runs before and after the reading. Otherwise the pid may
    /// have been given to another process in between, and the login uid would be that process's.
    ///
    /// - Parameter isKept: true if the kernel keeps login uids.
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
        // 4294967295 means that no person logged in.
        self = uid == UInt32.max ? .unset : .set(uid)
    }

    /// True if the kernel keeps login uids. A kernel without CONFIG_AUDIT has no loginuid file, even for this process.
    /// If /proc is missing, this is also true, so that a login uid counts as unreadable and not as unset.
    static let isKept = unsafe access("/proc/self/loginuid", F_OK) == 0 || access("/proc/self/stat", F_OK) != 0
}

extension String {
    /// The string without one newline at its end, if there is one.
    var trimmingTrailingNewline: Substring {
        hasSuffix("\n") ? dropLast() : self[...]
    }
}

/// The process that connected. When its files under /proc are read, its pid may already belong to another process.
protocol ConnectedProcess: ~Copyable {
    /// Returns evidence that the process still runs; nil if it has ended. If the evidence is equal before and after a
    /// file is read, the file belongs to that process.
    func life() -> ProcessLife?
    /// Returns the text of the process's login uid; nil if it cannot be read.
    func loginUID() -> String?
}

/// The evidence that distinguishes a process from others with the same pid.
enum ProcessLife: Equatable {
    /// The process runs: its descriptor, which never refers to another process, reports so.
    case runs
    /// The process runs, and started at this time (proc(5), /proc/pid/stat, field 22).
    case startedAt(UInt64)
}

/// The process that was a socket's peer at connect, by a descriptor from the kernel (SO_PEERPIDFD, Linux 6.5).
struct PeerDescriptor: ConnectedProcess, ~Copyable {
    enum Failure: Error {
        /// The kernel is older than Linux 6.5.
        case unsupported
        /// The process has been reaped, or there are no descriptors left.
        case failed
    }

    let pid: Int32
    private let descriptor: CInt

    /// - Parameter pid: the peer's pid according to SO_PEERCRED.
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

/// The process that has the peer's pid now, identified by its start time and uid. For kernels before Linux 6.5.
///
/// It cannot detect that the pid was given, between connect and accept, to another process of the same uid.
struct NumberedProcess: ConnectedProcess {
    let pid: Int32
    /// The peer's effective uid at connect. A process with another uid is not the peer, or no longer acts as it.
    let uid: UInt32

    func life() -> ProcessLife? {
        guard pid > 0, let stat = ProcessFile.text("stat", of: pid), let name = stat.lastIndex(of: ")"),
            ProcessFile.effectiveUID(of: pid) == uid
        else { return nil }
        // The name in parentheses can contain anything, so the fields are counted after it: the state (the 3rd field of
        // proc(5)) is at index 0, the start time (the 22nd) at 19.
        let fields = stat[stat.index(after: name)...].split(separator: " ")
        guard fields.count > 19, !["Z", "X"].contains(fields[0]), let start = UInt64(fields[19]) else { return nil }
        return .startedAt(start)
    }

    func loginUID() -> String? { ProcessFile.loginUID(of: pid) }
}

/// Files of a process under /proc (proc(5)).
enum ProcessFile {
    /// Returns the file's text; nil if the process has ended or must not be read, or if the file is not UTF-8.
    static func text(_ name: String, of pid: Int32) -> String? {
        // The kernel reports pid 0 for a peer in another PID namespace, which is not visible in this one.
        guard pid > 0 else { return nil }
        return try? SmallFile.text(at: "/proc/\(pid)/\(name)", maximumBytes: 4096)
    }

    static func loginUID(of pid: Int32) -> String? { text("loginuid", of: pid) }

    /// Returns the effective uid, which is the second number of `Uid:` in the file `status`.
    fileprivate static func effectiveUID(of pid: Int32) -> UInt32? {
        let line = text("status", of: pid)?.split(separator: "\n").first { $0.hasPrefix("Uid:") }
        return line.flatMap { line in
            let numbers = line.split(separator: "\t").dropFirst()
            return numbers.count == 4 ? UInt32(numbers[numbers.startIndex + 1]) : nil
        }
    }
}

/// An entry of a configuration's access rules. It matches peers of a Unix socket. Each program defines the rights that
/// a match gives, such as the daemon's roles and merchants.
package protocol PeerRule {
    /// The user of the peer's process.
    var user: Account? { get }
    /// A primary or supplementary group. If ``user`` is set too, both must match.
    var group: Account? { get }
}

extension PeerRule {
    package func matches(_ peer: PeerCredentials, overflow: OverflowIdentifiers) -> Bool {
        // Every unmapped peer shows the overflow identifier, which therefore identifies no account.
        if let user, peer.uid != user.id || user.id == overflow.uid { return false }
        if let group, !peer.belongs(to: group.id) || group.id == overflow.gid { return false }
        return user != nil || group != nil
    }

    /// The set of accounts that the rule admits by a group alone; nil if the rule names the user.
    package var unnamedAccounts: UnnamedAccounts? { user == nil ? group.map { .group($0.id) } : nil }

    /// Returns true if the rule matches every peer that the later rule matches, according to the system's users and groups. A
    /// process can have other groups than its user, so this is for a warning only.
    func covers(of later: some PeerRule) -> Bool {
        if let user, user.id != later.user?.id { return false }
        guard let group else { return user != nil }
        if later.group?.id == group.id { return true }
        guard let name = later.user?.name, let account = Accounts.user(name) else { return false }
        return Accounts.groups(of: account).contains(group.id)
    }
}

extension Sequence where Element: PeerRule {
    /// Returns the first rule that matches the peer; nil if none does. No later rule has an effect on this peer.
    package func first(matching peer: PeerCredentials, overflow: OverflowIdentifiers) -> Element? {
        first { $0.matches(peer, overflow: overflow) }
    }

    /// Returns the set of accounts that the peer's connections count for; nil if its rule names the peer's account.
    ///
    /// One account can have thousands of subordinate uids (subuid(5)), so accounts that no rule names are counted
    /// together.
    package func unnamedAccounts(of peer: PeerCredentials, overflow: OverflowIdentifiers) -> UnnamedAccounts? {
        guard let rule = first(matching: peer, overflow: overflow) else { return .unmatched }
        return rule.unnamedAccounts
    }
}

/// Accounts that no rule names.
package enum UnnamedAccounts: Sendable, Hashable {
    /// Accounts that a rule admits by this group.
    case group(UInt32)
    /// Accounts that no rule admits.
    case unmatched
}

/// The uid and gid of accounts that are not mapped in this user namespace (user_namespaces(7)).
package struct OverflowIdentifiers: Sendable, Equatable {
    package let uid: UInt32
    package let gid: UInt32

    package init(uid: UInt32, gid: UInt32) {
        self.uid = uid
        self.gid = gid
    }

    package static let current = OverflowIdentifiers(
        uid: read("/proc/sys/kernel/overflowuid"), gid: read("/proc/sys/kernel/overflowgid"))

    private static func read(_ path: String) -> UInt32 {
        (try? SmallFile.text(at: path, maximumBytes: 32)).flatMap { UInt32($0.trimmingTrailingNewline) } ?? 65_534
    }
}
