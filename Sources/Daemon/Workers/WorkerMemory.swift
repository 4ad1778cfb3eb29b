import Foundation

/// How large a worker's process is.
enum WorkerMemory {
    /// By so much may a worker grow after it has opened its token, in bytes. SoftHSM 2.6.1 loses about 265 bytes with
    /// each derivation: that is a million of them, as many as `recycle_after` allows by default. What grows faster loses
    /// objects, which makes its sessions slow long before memory runs out. A worker that holds thousands of keys is
    /// large from the start, and so it is growth that counts and not size.
    static let growthLimit = 256 * 1024 * 1024

    /// Resident memory in bytes, from proc(5)'s `/proc/PID/statm`; nil when /proc is mounted so that a process does not
    /// see others (hidepid), or when the process has ended.
    static func resident(of process: pid_t) -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/\(process)/statm", encoding: .utf8) else { return nil }
        let fields = text.split(separator: " ")
        guard fields.count > 1, let pages = Int(fields[1]) else { return nil }
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
