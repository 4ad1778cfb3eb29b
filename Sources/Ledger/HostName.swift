import AuditChain
import Foundation

/// The name that the kernel has for this machine; asking the resolver could wait for a network.
enum HostName {
    static var current: String {
        let text = (try? String(contentsOfFile: "/proc/sys/kernel/hostname", encoding: .utf8)) ?? ""
        let name = text.trimmingCharacters(in: .whitespacesAndNewlines)
        return AuditNode(name)?.name ?? "localhost"
    }
}
