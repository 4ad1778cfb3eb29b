import Foundation

/// A node's name as every row and, later, every record carries it.
public enum NodeName {
    /// 1 to 64 letters, digits, dots, hyphens and underscores, all ASCII.
    public static func isValid(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
                case UInt8(ascii: "0")...UInt8(ascii: "9"): true
                case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
                default: false
                }
            }
    }
}

/// The name that the kernel has for this machine; asking the resolver could wait for a network.
enum HostName {
    static var current: String {
        let text = (try? String(contentsOfFile: "/proc/sys/kernel/hostname", encoding: .utf8)) ?? ""
        let name = text.trimmingCharacters(in: .whitespacesAndNewlines)
        return NodeName.isValid(name) ? name : "localhost"
    }
}
