/// What a process calls itself (proc(5), /proc/pid/comm); it can call itself anything.
enum ProcessName {
    /// nil where the process is gone or may not be looked at, or its name is not UTF-8.
    static func of(process pid: Int32) -> String? {
        guard pid > 0, let text = try? BoundedFile.text(at: "/proc/\(pid)/comm", maximumBytes: 64) else { return nil }
        return String(text.trimmingTrailingNewline)
    }
}
